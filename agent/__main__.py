"""The command ``sriov-agent``: listens to stop signals, and only then imports everything else."""

from __future__ import annotations

import sys
from typing import NoReturn

from agent import stop_signals


def main() -> NoReturn:
    """Run this process's command line and end the process with its exit code."""
    stop_signals.listen_early(sys.argv[1:])
    from agent.cli import dispatch  # noqa: PLC0415 - stop signals come first

    dispatch.main(sys.argv[1:])


if __name__ == "__main__":
    main()

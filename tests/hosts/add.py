"""Makes a test of a bug report: ``python tests/hosts/add.py node.tar.gz NAME [config.json]``.

The file is what ``sriov-agent snapshot`` wrote. Its tree becomes reviewable text in
``tests/hosts/NAME``; ``SRIOV_AGENT_RECORD=1 pytest`` then writes what is expected of it, to be
looked at line by line: that is where the bug shows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HOSTS = Path(__file__).resolve().parent
sys.path.insert(0, str(HOSTS.parents[1]))

from agent.host.archive import unpack  # noqa: E402 - this checkout's own
from tests.support.trees import dump_tree  # noqa: E402


def add(archive: Path, name: str, config: Path | None) -> Path:
    """Write the machine's folder; what is in it already stays."""
    folder = HOSTS / name
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as root:
        unpack(archive, Path(root))
        (folder / "tree.txt").write_text(dump_tree(Path(root)))
    pools = json.loads(config.read_text()) if config else {"resourceList": []}
    (folder / "config.json").write_text(json.dumps(pools, indent=2) + "\n")
    return folder


if __name__ == "__main__":
    archive, name, *config = sys.argv[1:]
    sys.stdout.write(f"written: {add(Path(archive), name, Path(config[0]) if config else None)}\n")

"""Kubelet's stand-in as a process, to be stopped: ``python -m tests.faults.standin DIR``.

Each list that it gets is a line of JSON on standard output.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.kubelet import Endpoint, Kubelet


class Telling(Kubelet):
    """Says what it gets."""

    def _receive(self, endpoint: Endpoint, response: Any) -> None:  # noqa: ANN401 - run time class
        super()._receive(endpoint, response)
        healthy = [d.id for d in endpoint.lists[-1] if d.healthy]
        line = {"resource": endpoint.resource, "healthy": healthy}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with Telling(Path(sys.argv[1])):
        sys.stdout.write('{"resource": "", "healthy": []}\n')
        sys.stdout.flush()
        threading.Event().wait()

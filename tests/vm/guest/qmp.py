"""The machine's own monitor, from inside it: a test pulls its cable or unplugs its NIC."""

from __future__ import annotations

import json
import os
import select
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path


class Refused(Exception):  # noqa: N818 - it says what happened
    """The machine refused a command."""


class Monitor:
    """A conversation in QEMU's machine protocol over a port of the guest.

    The conversation outlives its clients: one that opens the port later may find it negotiated.
    """

    def __init__(self, port: Path) -> None:
        self._wire = os.open(port, os.O_RDWR | os.O_CLOEXEC)
        self._unfinished = b""
        self._events: list[dict[str, Any]] = []
        self._asked = 0
        try:
            self.run("qmp_capabilities")
        except Refused as refused:
            if "negotiation" not in str(refused):
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._wire)

    def run(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - as the command says
        """What a command returns; a hyphen in an argument's name is written as `_`."""
        self._asked += 1
        tag = f"{os.getpid()}-{self._asked}"
        words = {name.replace("_", "-"): value for name, value in arguments.items()}
        text = json.dumps({"execute": command, "id": tag, "arguments": words})
        os.write(self._wire, text.encode() + b"\n")
        deadline = time.monotonic() + 30
        while True:
            answer = self._message(deadline)
            if answer.get("id") == tag:
                if "error" in answer:
                    raise Refused(answer["error"]["desc"])
                return answer["return"]

    def await_event(self, name: str, within_s: float, **fields: object) -> dict[str, Any]:
        """The data of the next event of that name with these fields, seen before or to come."""
        deadline = time.monotonic() + within_s
        while True:
            for event in self._events:
                data: dict[str, Any] = event.get("data", {})
                if event["event"] == name and fields.items() <= data.items():
                    self._events.remove(event)
                    return data
            self._message(deadline)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._unfinished:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._wire], [], [], left_s)[0]:
                raise TimeoutError("the machine's monitor says nothing")
            self._unfinished += os.read(self._wire, 65536)
        line, self._unfinished = self._unfinished.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        if "event" in message:
            self._events.append(message)
        return message

"""A mount whose server is dead: every call that touches it waits, as on NFS without its server."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FUSE = "/dev/fuse"
_MNT_DETACH = 2


@contextmanager
def dead_mount(folder: Path) -> Iterator[None]:
    """FUSE at ``folder``, of which nobody answers; at the end whoever waits gets an error."""
    try:
        server = os.open(_FUSE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE: {error}")
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
    try:
        if libc.mount(b"dead", os.fsencode(folder), b"fuse.dead", 0, options.encode()):
            pytest.skip(f"no FUSE mount: {os.strerror(ctypes.get_errno())}")
        yield
    finally:
        os.close(server)  # the kernel ends the connection, and all that wait for it
        libc.umount2(os.fsencode(folder), _MNT_DETACH)

"""Inputs of several commands, from their arguments: host paths, use of netlink, configuration."""

from __future__ import annotations

import asyncio
import atexit
import os
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path

from agent import logs
from agent.config.load import Loaded, load_config
from agent.config.schema import Config
from agent.config.source import SourceState, read_source
from agent.errors import ConfigError, UsageError
from agent.events.host import AltnamesFileUnreadable, DevlinkFileUnreadable
from agent.roots import Roots


def roots_of(arguments: Namespace) -> Roots:
    """The host's paths; a recorded host is unpacked to a folder that is removed at exit.

    Raises UsageError if the host root is neither a folder nor a recorded host, or if its
    ``devlink.json`` or ``altnames.json`` is invalid; ``run`` only logs a warning for these files.
    """
    host = Path(arguments.host_root).resolve()
    if host.is_file():
        host = _unpacked(host)
    if not host.is_dir():
        raise UsageError(
            f"--host-root {arguments.host_root}: there is no such folder or recorded host"
        )
    roots = Roots(host, arguments.kubelet_dir)
    if not roots.is_real_host:
        _check_facts(roots, go_on=arguments.command == "run")
    return roots


def _check_facts(roots: Roots, *, go_on: bool) -> None:
    from agent.host import altnames, devlink  # noqa: PLC0415 - for laid-out hosts only

    files = {DevlinkFileUnreadable: devlink, AltnamesFileUnreadable: altnames}
    for event, file in files.items():
        if fault := file.fault_of_file(roots.host):
            if not go_on:
                raise UsageError(fault)
            logs.emit(event(reason=fault))


_unpacked_folders: list[Callable[[], None]] = []


def remove_unpacked() -> None:
    """Remove the recorded hosts that this process unpacked."""
    while _unpacked_folders:
        _unpacked_folders.pop()()


@cache
def _unpacked(archive: Path) -> Path:
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - for recorded hosts only

    from agent.host.archive import is_archive, unpack  # noqa: PLC0415 - as above

    if not is_archive(archive):
        return archive
    folder = TemporaryDirectory(prefix="sriov-host-")
    _unpacked_folders.append(folder.cleanup)
    atexit.register(remove_unpacked)
    unpack(archive, Path(folder.name))
    return Path(folder.name)


def wants_netlink(arguments: Namespace, roots: Roots) -> bool:
    """Whether to use netlink; ``auto`` = only if the host root is this machine's."""
    if arguments.netlink == "auto":
        return roots.is_real_host
    return bool(arguments.netlink == "on")


def node_name() -> str | None:
    """The name of this Kubernetes node, from the environment."""
    return os.environ.get("NODE_NAME") or None


def own_pod() -> tuple[str | None, str | None]:
    """Name and namespace of the agent's own pod, if its manifest sets them."""
    return os.environ.get("POD_NAME") or None, os.environ.get("POD_NAMESPACE") or None


def config_or_none(arguments: Namespace, default: str) -> tuple[Config, Loaded | None]:
    """The pools of ``--config-file``, or of the default file if there is one.

    Pools with errors are left out, as ``run`` does at its start. Raises ConfigError if a file that
    was named cannot be used.
    """
    named = arguments.config_file
    source = asyncio.run(read_source(Path(named or default), node_name()))
    if source.state is not SourceState.READ:
        if named and not source.is_idle:
            raise ConfigError(source.message)
        return Config(), None
    loaded = load_config(
        source.data,
        source=str(source.path),
        default_prefix=arguments.resource_prefix,
        strict=arguments.strict,
        cdi=getattr(arguments, "use_cdi", False),
    )
    if loaded.config is None:
        raise ConfigError("\n".join(loaded.lines()), loaded.problems)
    return loaded.config, loaded

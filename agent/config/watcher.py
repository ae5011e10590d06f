"""Reads the configuration file at the start, and again whenever its content has changed.

A file with any error leaves the last good configuration in force. A ConfigMap is swapped whole when
any of its keys is edited, so the content of this node's own file decides, not the event.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import aiofiles.os
import attrs

from agent import blocking, logs
from agent.attrs_classes import frozen
from agent.bus import Bus
from agent.config.load import Loaded, load_config
from agent.config.problems import Severity
from agent.config.schema import Config
from agent.config.source import (
    CONFIG_MAP_LINK,
    FALLBACK_KEY,
    SOURCE,
    SourceResult,
    SourceState,
    read_source,
)
from agent.errors import ConfigError
from agent.events.config import (
    ConfigErrorFound,
    ConfigIdle,
    ConfigLoaded,
    ConfigRejected,
    ConfigReloaded,
    ConfigUnchanged,
    ConfigUnreadable,
    ConfigWarningFound,
    PoolRefused,
)
from agent.events.host import WatchUnavailable
from agent.file_threads import FileThreads
from agent.inotify import DirectoryWatch, EntryChanged, LookAgain, log_unwatched
from agent.tasks import Retry, keep_running, run_all

QUIET_S = 0.03
"""A plain rewrite empties the file first: wait until it no longer changes."""
LARGE_BYTES = 32 * 1024
"""Reading a file of this size takes some 20 ms; a larger one is read in a thread."""
RETRY_S = 5.0
"""When a file that could not be read is tried again: no event reports that it can be."""


@frozen
class ConfigChanged:
    """Another configuration is in force."""

    config: Config


@frozen
class ConfigStatus:
    """The state of the configuration, for readiness and status."""

    path: str
    """The file that was read or looked for; inside the folder if a folder was given."""
    in_force: bool = False
    """Whether any configuration is in force."""
    rejected: str = ""
    """Why the current content of the file is not in force; empty = it is."""
    refused: tuple[str, ...] = ()
    """Pools of the file in force that are not served because of their errors."""
    reloads: int = 0
    failures: int = 0
    idle: str = ""
    """Why there are no pools, although nothing is wrong; empty = there may be some."""


class ConfigWatcher:
    """Holds ``config``, the configuration in force; publishes ConfigChanged and ConfigRejected."""

    def __init__(
        self,
        path: Path,
        bus: Bus,
        *,
        prefix: str,
        node_name: str | None,
        strict: bool,
        cdi: bool,
    ) -> None:
        self.config = Config()
        self.status = ConfigStatus(str(path))
        self._path = path
        self._bus = bus
        self._prefix = prefix
        self._node_name = node_name
        self._strict = strict
        self._cdi = cdi
        self._seen: tuple[SourceState, bytes] | None = None
        self._asked = asyncio.Event()

    async def start(self) -> None:
        """Read the file for the first time; from now on SIGHUP asks for it to be read again.

        Pools with errors are refused and the others served. Raises ConfigError where nothing is
        left of a file that is not empty on purpose, or where there is no file and none will come.
        While the system cannot say what is there, it waits, and tries again every ``RETRY_S``.
        """
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._asked.set)
        source = await self._read_at_start()
        self._seen = (source.state, source.data)
        if source.is_idle:
            self._bus.publish(ConfigIdle(path=str(source.path), reason=source.message))
            self._accept(Config(), source)
            return
        if source.state is not SourceState.READ:
            raise ConfigError(source.message)
        loaded = await self._load(source)
        _tell_problems(loaded)
        if not loaded.usable or loaded.config is None:
            raise ConfigError(f"nothing in {source.path} can be used", loaded.problems)
        self._accept(loaded.config, source)
        self.status = attrs.evolve(self.status, refused=_names(loaded))
        _tell_refused(loaded)
        self._bus.publish(ConfigLoaded(path=str(source.path), pools=len(loaded.config.pools)))

    async def _read_at_start(self) -> SourceResult:
        while (source := await read_source(self._path, self._node_name)).is_fault:
            key = str(self._path)
            logs.emit_once(ConfigUnreadable(path=str(source.path), reason=source.message), key)
            self.status = attrs.evolve(self.status, rejected=source.message)
            await self._asked_within(RETRY_S)
        return source

    async def _asked_within(self, limit_s: float) -> None:
        """Wait until the file is to be read again (SIGHUP), or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._asked.wait()
        self._asked.clear()

    async def _load(self, source: SourceResult) -> Loaded:
        """Load the file; a large one in a thread, so that kubelet is served meanwhile."""
        read = partial(
            load_config,
            source.data,
            source=str(source.path),
            default_prefix=self._prefix,
            strict=self._strict,
            cdi=self._cdi,
        )
        is_large = len(source.data) > LARGE_BYTES
        return await blocking.compute("configuration", read) if is_large else read()

    def _accept(self, config: Config, source: SourceResult) -> None:
        self.config = config
        self.status = attrs.evolve(
            self.status,
            path=str(source.path),
            in_force=True,
            idle=source.message if source.is_idle else "",
            rejected="",
            refused=(),
        )

    async def reload(self, *, asked: bool = False) -> None:
        """Read the file again and put it in force if it has no errors.

        ``asked`` = requested by SIGHUP: the outcome is logged also if nothing changed.
        """
        source = await read_source(self._path, self._node_name)
        seen = (source.state, source.data)
        if seen == self._seen:
            if asked:
                logs.emit(ConfigUnchanged(path=str(source.path)))
            return
        self._seen = seen
        if source.state is SourceState.NO_FILE and not self.status.idle:
            self._reject(source.message)  # the pools of the file that was removed stay
        elif source.is_idle:
            self._bus.publish(ConfigIdle(path=str(source.path), reason=source.message))
            self._put_in_force(Config(), source)
        elif source.state is not SourceState.READ:
            self._reject(source.message)
        else:
            await self._judge(source)

    async def _judge(self, source: SourceResult) -> None:
        loaded = await self._load(source)
        _tell_problems(loaded)
        if loaded.config is None or loaded.errors:
            count = len(loaded.errors)
            first = loaded.errors[0].render(str(source.path))
            more = f" (and {count - 1} more)" if count > 1 else ""
            self._reject(f"{first}{more}")
            return
        self._bus.publish(ConfigReloaded(path=str(source.path), pools=len(loaded.config.pools)))
        self._put_in_force(loaded.config, source)

    def _put_in_force(self, config: Config, source: SourceResult) -> None:
        self.status = attrs.evolve(self.status, reloads=self.status.reloads + 1)
        changed = config != self.config
        self._accept(config, source)
        if changed:
            self._bus.publish(ConfigChanged(config))

    def _reject(self, summary: str) -> None:
        self.status = attrs.evolve(self.status, rejected=summary, failures=self.status.failures + 1)
        self._bus.publish(ConfigRejected(path=str(self._path), reason=summary))

    async def run(self) -> None:
        """Follow the file and SIGHUP until cancelled."""
        changed = asyncio.Event()
        await run_all(self._follow(changed), self._reload_when(changed), self._reload_asked())

    async def _follow(self, changed: asyncio.Event) -> None:
        """Set ``changed`` after each event that may change the content of the file.

        If the host allows no further watch, this is logged once and tried again; SIGHUP works.
        """

        async def attempt() -> None:
            await self._follow_while_possible(changed)

        failed = log_unwatched(self._path)
        await keep_running(attempt, expected=(OSError,), retry=Retry(), failed=failed)

    async def _follow_while_possible(self, changed: asyncio.Event) -> None:
        folders = (self._path, self._path.parent)
        files = await self._single_files()
        watch = DirectoryWatch(folders, files=files, purpose="watch of the configuration")
        await watch.open()
        with closing(watch):
            logs.forget(WatchUnavailable, str(self._path))
            changed.set()
            async for change in watch:
                if self._concerns(change):
                    changed.set()

    async def _single_files(self) -> tuple[Path, ...]:
        """Files to watch besides their folder, which gets no event of a file mounted alone."""
        threads = FileThreads(SOURCE, self._path)
        is_folder = await aiofiles.os.path.isdir(self._path, executor=threads)
        return () if is_folder else (self._path,)

    def _concerns(self, change: EntryChanged | LookAgain) -> bool:
        if isinstance(change, LookAgain):
            return True
        names = {self._path.name, CONFIG_MAP_LINK, FALLBACK_KEY, self._node_name}
        return change.path.name in names

    async def _reload_when(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            while changed.is_set():
                changed.clear()
                await asyncio.sleep(QUIET_S)
            await self.reload()
            if self._seen is not None and self._seen[0] is SourceState.UNUSABLE:
                asyncio.get_running_loop().call_later(RETRY_S, changed.set)

    async def _reload_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.reload(asked=True)


def _tell_problems(loaded: Loaded) -> None:
    for problem in loaded.problems:
        event = ConfigErrorFound if problem.severity is Severity.ERROR else ConfigWarningFound
        logs.emit(
            event(
                at=f"{loaded.source}:{problem.line}:{problem.column}",
                path=problem.path,
                message=problem.message,
                advice=problem.advice or None,
            )
        )


def _names(loaded: Loaded) -> tuple[str, ...]:
    return tuple(r.resource or f"resourceList[{r.index}]" for r in loaded.refused)


def _tell_refused(loaded: Loaded) -> None:
    for refused in loaded.refused:
        logs.emit(PoolRefused(index=refused.index, resource=refused.resource))

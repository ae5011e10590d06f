"""The host's half of the reports: the guest's tests as items of this session.

The tests of each folder of `GUESTS` are collected here as usual. The first of a folder boots its
machine, which runs all that were selected in one session of its own and sends each report as it
comes; here it is reported as if it had been run here, so that every pytest option that reads
results works. One machine runs at a time. Where QEMU itself aborts, a second machine goes on, once:
emulating several processors it can trip over a device that comes or goes (`iotlb_to_section`).
"""

from __future__ import annotations

import functools
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs
import pytest

from . import debian
from .boot import Furnish, Guest, plain
from .cache import cache_folder
from .furnish import furnished

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# The folders whose tests are run in guests, and what each guest is furnished with.
GUESTS: dict[Path, Furnish] = {
    Path(__file__).with_name("guest"): plain,
    Path(__file__).with_name("further"): furnished,
}
# The longest that a guest may live, boot included; a whole run takes a fraction of it.
LIMIT_S = 1800.0
# What the project's configuration of pytest demands.
_PLUGINS = ("-p", "pytest_asyncio.plugin")
# What a guest's pytest ends with when it came to its end: all passed, or some failed.
_COMPLETE = (0, 1)


def guest_of(item: pytest.Item) -> Path | None:
    """The folder of the guest that runs the item; None for one that is run here."""
    return next((folder for folder in GUESTS if item.path.is_relative_to(folder)), None)


@functools.cache
def obstacle() -> str | None:
    """Why this machine cannot start a guest, or None if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"the guest is a Linux x86_64 machine, this is {sys.platform} {platform.machine()}"
    if shutil.which("setpriv") is None:
        return "setpriv of util-linux is not there: it binds the guest's life to ours"
    return debian.obstacle(cache_folder())


class Relay:
    """A plugin that answers for the guests' items with what the guests report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stays: list[Stay] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report one item as its guest does, in place of running it."""
        folder = guest_of(item)
        if folder is None or obstacle():
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if not self._stays or self._stays[-1].folder != folder:
            if self._stays:
                self._stays[-1].end(orderly=True)
            self._stays.append(Stay.begun(self._config, folder, _items_from(item)))
        for report in self._reports_of(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports_of(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        """Those of its guest, or of a second one if the first was lost by QEMU's own fault."""
        stay = self._stays[-1]
        if (yield from stay.reports_of(item)):
            return
        is_first = [each.folder for each in self._stays].count(stay.folder) == 1
        if is_first and stay.guest.aborted:
            stay.figures.append(f"QEMU aborted; a second guest goes on with {item.name}")
            stay.end(orderly=False)
            stay = Stay.begun(self._config, stay.folder, _items_from(item))
            self._stays.append(stay)
            if (yield from stay.reports_of(item)):
                return
        yield stay.failure(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """See the last guest power itself off; end it at once if this session was stopped."""
        stopped = session.shouldstop or session.shouldfail
        for stay in self._stays[-1:]:
            stay.end(orderly=exitstatus in _COMPLETE and not stopped)
        if exitstatus != pytest.ExitCode.OK:
            return
        if any(stay.trouble for stay in self._stays):
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            return
        for stay in self._stays:
            shutil.rmtree(stay.guest.results)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the tests measured, and what was wrong with a guest as a whole."""
        for stay in self._stays:
            terminalreporter.section(f"measured in the guest of {stay.folder.name}/")
            for line in stay.figures:
                terminalreporter.write_line(line)
            for line in stay.trouble:
                terminalreporter.write_line(line, red=True)
            if stay.guest.results.exists():
                kept = f"console and dmesg of the guest: {stay.guest.results}"
                terminalreporter.write_line(kept)


@attrs.define
class Stay:
    """The time of one guest, from its boot to its end, and what it told."""

    folder: Path
    guest: Guest
    _config: pytest.Config
    _messages: Iterator[dict[str, Any]]
    figures: list[str] = attrs.field(factory=list)
    trouble: list[str] = attrs.field(factory=list)
    _told: bool = False

    @classmethod
    def begun(cls, config: pytest.Config, folder: Path, items: list[pytest.Item]) -> Self:
        """Boot the guest of a folder, to run these items."""
        words = ["-c", str(config.inipath), "--rootdir", str(config.rootpath)]
        words += [f"--override-ini={each}" for each in config.option.override_ini or ()]
        options = ["-q", "--no-header", "--no-summary", "--color=no", "-p", "no:cacheprovider"]
        tests = [item.nodeid for item in items]
        guest = Guest.booted(
            [sys.executable, "-m", "pytest", *words, *options, *_PLUGINS, *tests],
            # Each plugin that happens to be installed costs the emulated processor seconds.
            environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            folder=config.rootpath,
            results=Path(tempfile.mkdtemp(prefix="sriov-node-agent-vm-")),
            limit_s=LIMIT_S,
            echo=functools.partial(_echo, config),
            furnish=GUESTS[folder],
        )
        return cls(folder, guest, config, guest.messages())

    def end(self, *, orderly: bool) -> None:
        """See the guest power itself off, or end it at once; to be called once."""
        with self.guest as guest:
            if not orderly:
                return
            self.trouble += [f"unexpected: {message}" for message in self._messages]
            if guest.status not in _COMPLETE:
                self.trouble.append(f"the guest's pytest ended with {guest.status}")
            self.figures.append(f"the guest was on for {guest.age_s:.1f} s")

    def reports_of(self, item: pytest.Item) -> Generator[pytest.TestReport, None, bool]:
        """The reports of one item's phases; returns whether the guest sent all of them."""
        for message in self._messages:
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=message
            )
            if isinstance(report, pytest.CollectReport):
                self.trouble.append(report.longreprtext)
                continue
            assert report.nodeid == item.nodeid, "the guest runs the tests in another order"
            if isinstance(report.longrepr, list):  # the place and reason of a skip, a tuple in JSON
                report.longrepr = tuple(report.longrepr)
            if not self.figures:
                self.figures.append(f"the first result came after {self.guest.age_s:.1f} s")
            yield report
            if report.when == "teardown":
                self.figures += [f"{name}: {value}" for name, value in report.user_properties]
                return True
        return False

    def failure(self, item: pytest.Item) -> pytest.TestReport:
        """What is reported of an item in place of what the guest did not send."""
        why = f"its {LIMIT_S:.0f} s were over" if self.guest.overran else "it ended"
        if not self._told:
            self._told = True
            why = "\n".join([f"{why}, having said:", *self.trouble, *self.guest.tail])
            self.trouble.clear()
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"no result of this test came from the guest: {why}",
            when="call",
        )


def _items_from(item: pytest.Item) -> list[pytest.Item]:
    """The items of its guest from this one on."""
    items = [each for each in item.session.items if guest_of(each) == guest_of(item)]
    return items[items.index(item) :]


def _echo(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"guest | {line}")


def pytest_configure(config: pytest.Config) -> None:
    """Put the relay in place; `conftest.py` takes this and the next from here."""
    config.pluginmanager.register(Relay(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the guests' tests where no guest can be."""
    ours = [item for item in items if guest_of(item)]
    if ours and (reason := obstacle()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))

"""The host's half of the reports: the guest's tests as items of this session.

The tests of `guest/` are collected here as usual. The first of them boots the machine, which runs
all that were selected in one session of its own and sends each report as it comes; here it is
reported as if it had been run here, so that every pytest option that reads results works.
"""

from __future__ import annotations

import functools
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import debian
from .boot import Guest
from .cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).with_name("guest")
# The longest that a guest may live, boot included; a whole run takes a fraction of it.
LIMIT_S = 1800.0
# What the project's configuration of pytest demands.
_PLUGINS = ("-p", "pytest_asyncio.plugin")
# What a guest's pytest ends with when it came to its end: all passed, or some failed.
_COMPLETE = (0, 1)


def is_for_guest(item: pytest.Item) -> bool:
    """Whether the item is run in the guest."""
    return item.path.is_relative_to(TESTS)


@functools.cache
def obstacle() -> str | None:
    """Why this machine cannot start a guest, or None if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"the guest is a Linux x86_64 machine, this is {sys.platform} {platform.machine()}"
    if shutil.which("setpriv") is None:
        return "setpriv of util-linux is not there: it binds the guest's life to ours"
    return debian.obstacle(cache_folder())


class Relay:
    """A plugin that answers for the guest's items with what the guest reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._guest: Guest | None = None
        self._messages: Iterator[dict[str, Any]] = iter(())
        self._trouble: list[str] = []
        self._figures: list[str] = []
        self._told = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report one item as the guest does, in place of running it."""
        if not is_for_guest(item) or obstacle():
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if self._guest is None:
            self._guest = self._boot(list(filter(is_for_guest, item.session.items)))
            self._messages = self._guest.messages()
        for report in self._reports_of(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """See the guest power itself off; end it at once if this session was stopped."""
        guest = self._guest
        if guest is None:
            return
        with guest:
            if exitstatus not in _COMPLETE or session.shouldstop or session.shouldfail:
                return
            self._trouble += [f"unexpected: {message}" for message in self._messages]
            if guest.status not in _COMPLETE:
                self._trouble.append(f"the guest's pytest ended with {guest.status}")
            self._figures.append(f"the guest was on for {guest.age_s:.1f} s")
        if exitstatus == pytest.ExitCode.OK and self._trouble:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        elif exitstatus == pytest.ExitCode.OK:
            shutil.rmtree(guest.results)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the tests measured, and what was wrong with the guest as a whole."""
        if self._guest is None:
            return
        terminalreporter.section("measured in the guest")
        for line in self._figures:
            terminalreporter.write_line(line)
        for line in self._trouble:
            terminalreporter.write_line(line, red=True)
        if self._guest.results.exists():
            terminalreporter.write_line(f"console and dmesg of the guest: {self._guest.results}")

    def _boot(self, items: list[pytest.Item]) -> Guest:
        config = ["-c", str(self._config.inipath), "--rootdir", str(self._config.rootpath)]
        config += [f"--override-ini={each}" for each in self._config.option.override_ini or ()]
        options = ["-q", "--no-header", "--no-summary", "--color=no", "-p", "no:cacheprovider"]
        tests = [item.nodeid for item in items]
        return Guest.booted(
            [sys.executable, "-m", "pytest", *config, *options, *_PLUGINS, *tests],
            # Each plugin that happens to be installed costs the emulated processor seconds.
            environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            folder=self._config.rootpath,
            results=Path(tempfile.mkdtemp(prefix="sriov-node-agent-vm-")),
            limit_s=LIMIT_S,
            echo=self._echo,
        )

    def _echo(self, line: str) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"guest | {line}")

    def _reports_of(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        for message in self._messages:
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=message
            )
            if isinstance(report, pytest.CollectReport):
                self._trouble.append(report.longreprtext)
                continue
            assert report.nodeid == item.nodeid, "the guest runs the tests in another order"
            if isinstance(report.longrepr, list):  # the place and reason of a skip, a tuple in JSON
                report.longrepr = tuple(report.longrepr)
            if self._guest and not self._figures:
                self._figures.append(f"the first result came after {self._guest.age_s:.1f} s")
            yield report
            if report.when == "teardown":
                self._figures += [f"{name}: {value}" for name, value in report.user_properties]
                return
        yield self._failure(item)

    def _failure(self, item: pytest.Item) -> pytest.TestReport:
        assert self._guest is not None
        why = f"its {LIMIT_S:.0f} s were over" if self._guest.overran else "it ended"
        if not self._told:
            self._told = True
            why = "\n".join([f"{why}, having said:", *self._trouble, *self._guest.tail])
            self._trouble.clear()
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"no result of this test came from the guest: {why}",
            when="call",
        )


def pytest_configure(config: pytest.Config) -> None:
    """Put the relay in place; `conftest.py` takes this and the next from here."""
    config.pluginmanager.register(Relay(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the guest's tests where no guest can be."""
    ours = list(filter(is_for_guest, items))
    if ours and (reason := obstacle()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))

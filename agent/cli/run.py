"""``run``: from arguments to the running agent."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator
from logging import LogRecord
from pathlib import Path

from agent import library_logs, logs
from agent.cli.inputs import node_name, own_pod, roots_of, wants_netlink
from agent.config.schema import AllocationPolicy
from agent.daemon import run_agent
from agent.errors import AgentError
from agent.events.agent import (
    AgentFailed,
    AgentStartFailed,
    ArgumentsPassedOver,
    LogDirUnused,
    LogLinesDropped,
)
from agent.options import RunOptions
from agent.startup import shorten_switch_interval, use_one_malloc_arena


def command(arguments: Namespace) -> int:
    """Run until a stop signal; returns the exit code, 1 after an unexpected exception.

    Raises AgentError for expected errors, which are printed; a JSON log has an event instead.
    """
    level = arguments.verbosity if arguments.verbosity is not None else arguments.log_level
    logs.configure(logs.parse_level(level), arguments.log_format, dropped_record=_dropped_record)
    library_logs.follow_libraries()
    try:
        return _run(arguments)
    except AgentError as error:
        if arguments.log_format != "json":
            raise
        logs.emit(AgentStartFailed(error=str(error)))
        return error.exit_code
    finally:
        logs.flush()


def _dropped_record(count: int) -> LogRecord:
    return logs.record_of(LogLinesDropped(count=count))


def _run(arguments: Namespace) -> int:
    if arguments.log_dir:
        logs.emit(LogDirUnused(log_dir=arguments.log_dir))
    if arguments.passed_over:
        logs.emit(ArgumentsPassedOver(words=" ".join(arguments.passed_over)))
    options = run_options(arguments)
    use_one_malloc_arena()
    shorten_switch_interval()
    life = run_agent(options)
    try:
        asyncio.run(life)
    except AgentError:
        raise
    except Exception as error:  # noqa: BLE001 - a bug: logged with its traceback, ends the process
        if (expected := _expected(error)) is not None:
            raise expected from None
        logs.emit_crash(AgentFailed(error=_first_of(error)), error)
        return 1
    finally:
        life.close()  # if a stop signal came before it started
    return 0


def _expected(error: Exception) -> AgentError | None:
    """The expected error in an exception group that has nothing else."""
    if isinstance(error, ExceptionGroup) and error.split(AgentError)[1] is None:
        return next(e for e in _leaves(error) if isinstance(e, AgentError))
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _first_of(error: Exception) -> str:
    return repr(next(_leaves(error)))


def run_options(arguments: Namespace) -> RunOptions:
    """The arguments of ``run`` as one value. Raises UsageError."""
    roots = roots_of(arguments)
    if arguments.http_address:
        from agent.http.address import parse_address  # noqa: PLC0415 - only with --http-address

        parse_address(arguments.http_address)
    pod_name, pod_namespace = own_pod()
    return RunOptions(
        roots=roots,
        config_file=Path(arguments.config_file),
        resource_prefix=arguments.resource_prefix,
        node_name=node_name(),
        pod_name=pod_name,
        pod_namespace=pod_namespace,
        strict=arguments.strict,
        cdi=arguments.cdi_mode if arguments.use_cdi else None,
        registration=arguments.registration,
        allocation_policy=AllocationPolicy(arguments.allocation_policy),
        netlink=wants_netlink(arguments, roots),
        rescan_s=arguments.rescan_seconds,
        http_address=arguments.http_address,
        vf_metrics=arguments.vf_metrics,
    )

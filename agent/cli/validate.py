"""``validate``: prints every problem of a configuration file, then the result for each pool."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from agent.cli.discover import ALL_NEEDS
from agent.cli.inputs import node_name, roots_of, wants_netlink
from agent.config.load import Loaded, load_config
from agent.config.problems import Severity, printable
from agent.config.schema import PoolConfig
from agent.config.source import SourceResult, SourceState, read_source
from agent.discovery.scan import scan
from agent.model.pci_class import class_need
from agent.model.snapshot import Snapshot
from agent.selectors import diagnose


def run_validate(
    path: Path,
    *,
    default_prefix: str,
    out: TextIO,
    strict: bool = False,
    cdi: bool = False,
    node_name: str | None = None,
    snapshot: Snapshot | None = None,
) -> int:
    """Print all problems and a summary; 2 if there is any error, else 0.

    With a snapshot it also prints which selectors match nothing on that host; these are not
    problems of the file and do not change the exit code.
    """
    source = asyncio.run(read_source(path, node_name))
    if source.state is not SourceState.READ:
        return _without_file(source, out)
    loaded = load_config(
        source.data,
        source=str(source.path),
        default_prefix=default_prefix,
        strict=strict,
        cdi=cdi,
    )
    for line in (*loaded.lines(), *_summary(loaded), *_on_host(loaded, snapshot)):
        _print(line, out)
    return loaded.exit_code


def command(arguments: Namespace) -> int:
    """Validate the file that was named, or ``--config-file``. Raises UsageError."""
    roots = roots_of(arguments)
    netlink = wants_netlink(arguments, roots)
    needs = ALL_NEEDS | {class_need("")}
    return run_validate(
        Path(arguments.file or arguments.config_file),
        default_prefix=arguments.resource_prefix,
        out=sys.stdout,
        strict=arguments.strict,
        cdi=arguments.use_cdi,
        node_name=node_name(),
        snapshot=scan(roots, netlink=netlink, needs=needs) if arguments.on_this_host else None,
    )


def _without_file(source: SourceResult, out: TextIO) -> int:
    """Report a missing file: an error if a file was named, but not for a folder without one."""
    is_fine = source.state in {SourceState.NO_KEY, SourceState.NO_FILE}
    _print(f"{source.path}: {'note' if is_fine else 'error'}: {source.message}", out)
    return 0 if is_fine else 2


def _summary(loaded: Loaded) -> Iterator[str]:
    counts = Counter(p.severity for p in loaded.problems)
    problem_counts = (
        ", ".join(_count(counts[s], str(s)) for s in Severity if counts[s]) or "no problems"
    )
    if loaded.config is None:
        yield f"{loaded.source}: the file is refused as a whole ({problem_counts})"
        return
    accepted, refused = loaded.config.pools, loaded.refused
    if not accepted and not refused:
        yield f"{loaded.source}: no pools ({problem_counts})"
        return
    pool_counts = f"{_count(len(accepted), 'pool')} accepted, {len(refused)} refused"
    yield f"{loaded.source}: {pool_counts} ({problem_counts})"
    yield from (f"  accepted {pool.resource} ({pool.kind})" for pool in accepted)
    for refused_pool in refused:
        name = printable(refused_pool.resource or "a pool without a name")
        yield f"  refused  {name} (resourceList[{refused_pool.index}])"


def _on_host(loaded: Loaded, snapshot: Snapshot | None) -> Iterator[str]:
    if snapshot is None or loaded.config is None:
        return
    for pool in loaded.config.pools:
        for hint in _hints(pool, snapshot):
            yield f"on this host: {pool.resource}: {hint}"


def _hints(pool: PoolConfig, snapshot: Snapshot) -> tuple[str, ...]:
    hints = (hint for s in pool.selectors for hint in diagnose(s, pool.kind, snapshot))
    return tuple(dict.fromkeys(hints))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print(line: str, out: TextIO) -> None:
    """Print one line, with escapes for characters that the stream's encoding does not have."""
    encoding = out.encoding or "utf-8"
    out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")

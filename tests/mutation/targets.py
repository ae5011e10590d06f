"""Which files get faults, and which tests must find them: the quick ones first."""

from __future__ import annotations

from collections.abc import Mapping

_MODEL = ("tests/model",)
_POOLS = ("tests/unit/pools", "tests/unit/test_reconcile.py", "tests/unit/test_allocator.py")
_HEALTH = ("tests/unit/health", "tests/unit/test_reconcile.py", "tests/e2e/test_alive.py")
_PLUGIN = ("tests/unit/plugin", "tests/e2e/test_run.py")
_ROUTES = (
    *("tests/unit/host/test_routes.py", "tests/unit/host/test_route_events.py"),
    "tests/unit/host/test_route_filter.py",
    *("tests/unit/host/test_addresses.py", "tests/unit/pools/test_guard.py"),
    *("tests/unit/watch/test_netlink_watcher.py", "tests/e2e/test_links.py"),
)
_HTTP = ("tests/unit/http", "tests/e2e/test_observability.py")

TESTS: Mapping[str, tuple[str, ...]] = {
    "agent/pools/allocation_tracker.py": (*_POOLS, *_MODEL),
    "agent/pools/allocated.py": (*_POOLS, *_MODEL),
    "agent/health/dampening.py": (*_HEALTH, "tests/fuzz/test_sequences.py"),
    "agent/health/link.py": (*_HEALTH, "tests/fuzz/test_sequences.py"),
    "agent/discovery/scan_cache.py": (
        *("tests/unit/discovery", "tests/fuzz/test_host.py"),
        *_MODEL,
    ),
    "agent/plugin/resource.py": (*_PLUGIN, *_MODEL),
    "agent/plugin/watcher.py": (*_PLUGIN, *_MODEL),
    "agent/plugin/device_list.py": (*_PLUGIN, "tests/fuzz/test_wire.py"),
    "agent/transport/unix_socket.py": ("tests/unit/transport", *_PLUGIN, *_MODEL),
    "agent/pools/match_index.py": (
        *("tests/unit/pools", "tests/unit/selectors", "tests/fuzz/test_host.py"),
    ),
    "agent/host/routes.py": _ROUTES,
    "agent/host/route_events.py": _ROUTES,
    "agent/host/route_filter.py": _ROUTES,
    "agent/host/route_rules.py": _ROUTES,
    "agent/pools/guard.py": (*_ROUTES, "tests/unit/pools"),
    "agent/config/watcher.py": ("tests/unit/config", "tests/e2e/test_alive.py", *_MODEL),
    "agent/kubelet/resource_locks.py": (
        *("tests/unit/kubelet", "tests/unit/hardening", "tests/e2e/test_two_agents.py"),
    ),
    "agent/http/server.py": _HTTP,
    "agent/http/connection.py": _HTTP,
    "agent/http/places.py": _HTTP,
    "agent/http/site.py": _HTTP,
    "agent/export/atomic.py": ("tests/unit/export",),
    "agent/host/sysfs.py": ("tests/unit/host",),
    "agent/host/switchdev.py": ("tests/unit/host", "tests/unit/discovery"),
    "agent/reconcile.py": (
        *("tests/unit/test_reconcile.py", "tests/unit/test_reconcile_many.py"),
        *_MODEL,
    ),
}

EVERY_FILE = ("tests/unit/docs/test_limits.py",)
"""Quick tests of constants, whichever file they are in."""

SAME_BEHAVIOUR: tuple[tuple[str, str, str, str], ...] = (
    # File, pattern of the source line, text before and after; each with its reason.
    # Only conditional jumps of classic BPF read the jump distances.
    ("agent/host/route_filter.py", r"^_NO_CONDITION = ", "0", "1"),
    # One bit more, which the expression that uses it contains anyway.
    ("agent/host/routes.py", r"^_RTF_REJECT = ", "0x200", "513"),
    # Tables that are equal have no differing keys, which the next line finds as well.
    ("agent/discovery/scan_cache.py", r"if before is now or before == now:", "or", "and"),
    # Zero where numbers are little-endian.
    ("agent/host/route_filter.py", r"\+ _LOW_OF_(16|32)$", "+", "-"),
    # One byte more makes the mark of a run no less unique.
    ("agent/http/site.py", r"secrets\.token_hex\(4\)", "4", "5"),
    # The size of a piece that is read does not matter.
    ("agent/http/connection.py", r"_reader\.read\(4096\)", "4096", "4097"),
    # A route of just this size has no attributes, and so no legs.
    ("agent/host/routes.py", r"if len\(route\) < _RTMSG.size", "<", "<="),
    # The only port counts whether it is named or not.
    ("agent/health/link.py", r"if len\(uplink.ports\) > 1", ">", ">="),
    # One byte more than expected is enough to see that a file is longer.
    ("agent/export/atomic.py", r"\.read\((len\(data\)|limit) \+ 1\)", "1", "2"),
)
"""Faults that change no behaviour, so that no test can find them; they are never drawn."""

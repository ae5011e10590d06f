from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata

import pytest


def in_a_fresh_python(script: str) -> str:
    """What a script prints that starts with nothing imported; it must end well."""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_libraries_are_imported_as_if_there_were_no_tls() -> None:
    script = """
from agent.startup import import_leanly
with import_leanly():
    import asyncio.sslproto, grpclib.client
print(asyncio.sslproto.ssl, grpclib.client._ssl)
"""
    assert in_a_fresh_python(script) == "None None"


def test_a_hidden_module_can_be_imported_afterwards() -> None:
    script = """
from agent.startup import import_leanly
with import_leanly():
    import asyncio
import gc, ssl, importlib.metadata
print(ssl.SSLContext.__name__, importlib.metadata.__file__.endswith(".py"), gc.isenabled())
"""
    assert in_a_fresh_python(script) == "SSLContext True True"


def test_a_version_is_read_from_the_name_of_a_folder() -> None:
    script = """
from agent.startup import import_leanly
with import_leanly():
    from importlib import metadata
    import sys
    print(metadata.version("betterproto2"), "email" in sys.modules)
"""
    assert in_a_fresh_python(script) == f"{metadata.version('betterproto2')} False"


@pytest.mark.parametrize(
    "asked",
    [
        "metadata.distribution('betterproto2').version",
        "metadata.version('Betterproto2')",  # no folder is spelled so
    ],
)
def test_the_real_module_answers_all_other_questions_about_versions(asked: str) -> None:
    script = f"""
from agent.startup import import_leanly
with import_leanly():
    from importlib import metadata
    print({asked})
"""
    assert in_a_fresh_python(script) == metadata.version("betterproto2")


def test_imported_objects_are_frozen_for_the_garbage_collector() -> None:
    script = """
from agent.startup import import_leanly
with import_leanly():
    import asyncio
import gc
print(gc.get_freeze_count() > 1000, gc.get_count()[0] < 1000)
"""
    assert in_a_fresh_python(script) == "True True"


def test_a_module_that_is_imported_already_is_not_hidden() -> None:
    script = """
import ssl
from agent.startup import import_leanly
with import_leanly():
    import asyncio.sslproto
print(asyncio.sslproto.ssl is ssl)
"""
    assert in_a_fresh_python(script) == "True"


def test_a_module_imported_lazily_is_loaded_when_an_attribute_is_read() -> None:
    script = """
import sys
from agent.startup import import_lazily
with import_lazily("ssl"):
    import ssl
print("ssl" in sys.modules, "_ssl" in sys.modules, ssl.SSLContext.__name__, "_ssl" in sys.modules)
import ssl as real
print(real.SSLContext is ssl.SSLContext, real is ssl)
"""
    assert in_a_fresh_python(script).split() == [
        *("False", "False", "SSLContext", "True"),
        *("True", "False"),
    ]


def test_a_module_imported_lazily_is_loaded_by_a_library_that_uses_it_at_once() -> None:
    script = """
from agent.startup import import_lazily
with import_lazily("ssl"):
    from ssl import SSLContext
    import ssl
print(SSLContext.__module__, ssl.__spec__.name)
"""
    assert in_a_fresh_python(script).split() == ["ssl", "ssl"]


def test_a_module_that_is_imported_already_is_not_imported_lazily() -> None:
    script = """
import ssl, sys
from agent.startup import import_lazily
with import_lazily("ssl"):
    print(sys.modules["ssl"] is ssl)
print(sys.modules["ssl"] is ssl)
"""
    assert in_a_fresh_python(script).split() == ["True", "True"]


def test_an_exception_ends_the_hiding() -> None:
    script = """
from agent.startup import import_leanly
try:
    with import_leanly():
        raise LookupError
except LookupError:
    import ssl
    print(ssl.__name__)
"""
    assert in_a_fresh_python(script) == "ssl"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
@pytest.mark.parametrize(("call", "heaps"), [("use_one_malloc_arena()", "1"), ("", "2")])
def test_all_threads_share_one_heap(call: str, heaps: str) -> None:
    script = f"""
import ctypes, threading
from agent.startup import use_one_malloc_arena
{call}
malloc = ctypes.CDLL(None).malloc  # lets go of the lock, so the thread asks malloc itself
thread = threading.Thread(target=malloc, args=(100_000,))
thread.start()
thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""
    assert str(in_a_fresh_python(script).count("<heap nr=")) == heaps


def test_the_loop_waits_for_a_working_thread_at_most_a_millisecond() -> None:
    script = """
import sys
from agent.startup import shorten_switch_interval
shorten_switch_interval()
print(sys.getswitchinterval())
"""
    assert float(in_a_fresh_python(script)) <= 0.001

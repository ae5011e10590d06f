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
from agent.startup import defer_unused_imports
with defer_unused_imports():
    import asyncio.sslproto, grpclib.client
print(asyncio.sslproto.ssl, grpclib.client._ssl)
"""
    assert in_a_fresh_python(script) == "None None"


def test_what_was_hidden_is_there_for_whoever_asks_afterwards() -> None:
    script = """
from agent.startup import defer_unused_imports
with defer_unused_imports():
    import asyncio
import gc, ssl, importlib.metadata
print(ssl.SSLContext.__name__, importlib.metadata.__file__.endswith(".py"), gc.isenabled())
"""
    assert in_a_fresh_python(script) == "SSLContext True True"


def test_a_version_is_told_as_the_real_module_tells_it() -> None:
    script = """
from agent.startup import defer_unused_imports
with defer_unused_imports():
    from importlib import metadata
    import sys
    print(metadata.version("betterproto2"), "email" in sys.modules)
"""
    assert in_a_fresh_python(script) == f"{metadata.version('betterproto2')} False"


@pytest.mark.parametrize(
    "asked",
    [
        "metadata.distribution('betterproto2').version",
        "metadata.version('Betterproto2')",  # a spelling that no folder has
    ],
)
def test_whatever_else_is_asked_of_versions_is_answered_by_the_real_module(asked: str) -> None:
    script = f"""
from agent.startup import defer_unused_imports
with defer_unused_imports():
    from importlib import metadata
    print({asked})
"""
    assert in_a_fresh_python(script) == metadata.version("betterproto2")


def test_what_is_deferred_is_loaded_by_whoever_asks_something_of_it() -> None:
    script = """
import sys
from agent.startup import defer_unused_imports
with defer_unused_imports():
    import aiofiles, attrs
    print("tempfile" in sys.modules, attrs.validators.__spec__)
    namespace = {}
    exec("from attr.validators import *", namespace)
print(namespace["in_"].__module__, aiofiles.tempfile.TemporaryFile.__module__)
"""
    told = in_a_fresh_python(script).split()
    assert told == ["False", "None", "attr.validators", "aiofiles.tempfile"]


def test_what_was_imported_is_not_walked_through_afterwards() -> None:
    script = """
from agent.startup import defer_unused_imports
with defer_unused_imports():
    import asyncio
import gc
print(gc.get_freeze_count() > 1000, gc.get_count()[0] < 1000)
"""
    assert in_a_fresh_python(script) == "True True"


def test_a_c_library_is_not_searched_for_where_this_process_has_it() -> None:
    script = """
import sys
from agent.startup import stub_find_library
with stub_find_library():
    import ctypes.util
    print(ctypes.util.find_library("c"), "shutil" in sys.modules)
print(ctypes.util.find_library.__module__)
with stub_find_library():
    print(ctypes.util.find_library.__module__)
"""
    assert in_a_fresh_python(script).split() == ["None", "False", "ctypes.util", "ctypes.util"]


def test_modules_that_are_there_already_stay() -> None:
    script = """
import importlib.metadata, ssl
from agent.startup import defer_unused_imports
with defer_unused_imports():
    import asyncio.sslproto
    from importlib import metadata
print(asyncio.sslproto.ssl is ssl, metadata is importlib.metadata)
"""
    assert in_a_fresh_python(script) == "True True"


def test_hiding_ends_with_an_error_too() -> None:
    script = """
from agent.startup import defer_unused_imports
try:
    with defer_unused_imports():
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


def test_the_loop_waits_for_a_thread_at_work_no_longer_than_a_millisecond() -> None:
    script = """
import sys
from agent.startup import shorten_switch_interval
shorten_switch_interval()
print(sys.getswitchinterval())
"""
    assert float(in_a_fresh_python(script)) <= 0.001

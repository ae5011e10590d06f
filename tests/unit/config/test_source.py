from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from agent.config.source import MAX_BYTES, SourceResult, SourceState, read_source


def config_map(folder: Path, **keys: str) -> Path:
    """A folder as kubelet mounts a ConfigMap: links through ``..data`` to a folder of one state."""
    state = folder / "..2024_01_01"
    state.mkdir(parents=True)
    (folder / "..data").symlink_to(state.name)
    for name, text in keys.items():
        (state / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


async def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"{}")
    assert await read_source(path, None) == SourceResult(path, SourceState.READ, b"{}")


async def test_in_a_directory_the_key_of_this_node_comes_before_the_general_one(
    tmp_path: Path,
) -> None:
    folder = config_map(tmp_path / "pcidp", **{"worker-1": "one", "config.json": "general"})
    assert (await read_source(folder, "worker-1")).data == b"one"
    assert (await read_source(folder, "worker-2")).data == b"general"
    assert (await read_source(folder, None)).path == folder / "config.json"


async def test_no_key_for_this_node_is_idle(tmp_path: Path) -> None:
    folder = config_map(tmp_path / "pcidp", other="x")
    result = await read_source(folder, "worker-1")
    assert (result.state, result.is_idle) == (SourceState.NO_KEY, True)
    assert result.message == (
        f"{folder} holds neither worker-1 nor config.json: no pools for this node"
    )
    unnamed = await read_source(folder, None)
    assert "NODE_NAME is not set" in unnamed.message


async def test_a_node_name_never_leads_out_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "pcidp").mkdir()
    result = await read_source(tmp_path / "pcidp", "../secret")
    assert result.state is SourceState.NO_FILE


async def test_a_plain_folder_without_a_file_is_distinguished_from_a_config_map(
    tmp_path: Path,
) -> None:
    result = await read_source(tmp_path, "worker-1")
    assert (result.state, result.is_idle) == (SourceState.NO_FILE, True)
    assert result.message == f"{tmp_path} holds neither worker-1 nor config.json"


async def test_an_unreadable_folder_is_not_treated_as_missing(tmp_path: Path) -> None:
    """As in a folder that may not be searched, to which root has the right."""
    name = "n" * 300
    result = await read_source(tmp_path, name)
    assert (result.state, result.is_idle) == (SourceState.UNUSABLE, False)
    assert result.message == f"{tmp_path} cannot be read: File name too long"


async def test_a_missing_file_is_distinguished_from_one_that_may_still_be_created(
    tmp_path: Path,
) -> None:
    folder = config_map(tmp_path / "pcidp", other="x")
    awaited = await read_source(folder / "worker-1", "worker-1")
    assert (awaited.state, awaited.is_idle) == (SourceState.AWAITED, True)
    assert "is a mounted ConfigMap without the key worker-1" in awaited.message
    missing = await read_source(tmp_path / "config.json", None)
    assert (missing.state, missing.is_idle) == (SourceState.MISSING, False)
    assert missing.message == f"{tmp_path / 'config.json'} does not exist"


async def test_a_variable_that_was_not_replaced_is_recognised(tmp_path: Path) -> None:
    result = await read_source(tmp_path / "$(NODE_NAME)", None)
    assert "$(...) was not replaced" in result.message


async def test_a_dangling_link_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("gone")
    result = await read_source(tmp_path / "config.json", None)
    assert result.message.endswith("is a link to a file that does not exist")


async def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with asyncio.timeout(10):
        result = await read_source(tmp_path / "pipe", None)
    assert (result.state, result.message) == (
        SourceState.UNUSABLE,
        f"{tmp_path / 'pipe'} is a named pipe, not a file",
    )


async def test_a_socket_and_a_device_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        assert (await read_source(tmp_path / "s", None)).message.endswith("a socket, not a file")
    assert (await read_source(Path("/dev/zero"), None)).message.endswith("a device, not a file")


async def test_a_directory_in_place_of_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    result = await read_source(tmp_path, None)
    assert (result.state, result.message) == (
        SourceState.UNUSABLE,
        f"{tmp_path / 'config.json'} is a directory, not a file",
    )


async def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert (
        f"bytes large, at most {MAX_BYTES} are allowed" in (await read_source(path, None)).message
    )
    os.truncate(path, MAX_BYTES)
    assert (await read_source(path, None)).state is SourceState.READ


async def test_an_error_of_the_system_is_reported_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    for path, words in (
        (tmp_path / "loop", "cannot be read: Too many levels of symbolic links"),
        (tmp_path / "file" / "x", "cannot be read: Not a directory"),
        (tmp_path / ("x" * 300), "cannot be read: File name too long"),
        (Path("/proc/self/mem"), "cannot be read: Input/output error"),
    ):
        result = await read_source(path, None)
        assert (result.state, result.message) == (SourceState.UNUSABLE, f"{path} {words}")


async def test_a_name_with_a_nul_character_is_refused() -> None:
    result = await read_source(Path("a\0b"), None)
    assert result.state in {SourceState.UNUSABLE, SourceState.MISSING}
    assert result.message


def unreadable_file(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "config.json").chmod(0)
    folder.chmod(0o711)


async def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    unreadable_file(tmp_path)
    program = (
        "import asyncio, os, pathlib\n"
        "from agent.config.source import read_source\n"
        "async def told(path):\n"
        "    await read_source(path, None)  # all that reading needs is imported by now\n"
        "    if os.geteuid() == 0:\n"
        "        os.seteuid(65534)\n"
        "    return (await read_source(path, None)).message\n"
        "print(asyncio.run(told(pathlib.Path('config.json'))))\n"
    )
    # From inside the folder, so that the other user need not reach it from the root.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert told.decode().strip() == "config.json cannot be read: Permission denied"

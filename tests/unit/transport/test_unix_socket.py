from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SocketPathTooLongError
from agent.roots import Roots
from agent.transport.unix_socket import (
    bind_socket,
    find_foreign,
    identify,
    is_listening,
    remove_dead,
    require_room,
    socket_path,
    socket_token,
)

TOKEN = socket_token(1, "0123abcd")
VF = "intel.com/vf"


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def leave_dead(path: Path) -> None:
    listen(path).close()


def test_the_name_has_prefix_resource_generation_and_process() -> None:
    assert socket_path(Path("/k"), VF, TOKEN) == Path("/k/intel.com_vf.g1-0123abcd.sock")


@given(
    folder=st.integers(1, 120).map(lambda n: Path("/" + "f" * n)),
    name=st.text("abcdefghijklmnopqrstuvwxyz-_.", min_size=1, max_size=200),
)
def test_a_path_has_at_most_107_bytes_and_room_for_the_dot(folder: Path, name: str) -> None:
    try:
        path = socket_path(folder, f"intel.com/{name}", TOKEN)
    except SocketPathTooLongError:
        # The hash and the token alone would not fit.
        assert len(str(folder)) + len(f"/.{'h' * 12}.{TOKEN}.sock") > 107
    else:
        assert path.parent == folder
        assert len(str(path)) <= 106
        assert path.name.endswith(f".{TOKEN}.sock")
        assert not path.name.startswith(".")


def test_names_that_are_cut_differ_by_their_resource() -> None:
    folder = Path("/" + "f" * 60)
    paths = {socket_path(folder, f"intel.com/{'x' * 60}{i}", TOKEN) for i in range(100)}
    assert len(paths) == 100


def test_a_folder_with_a_path_that_is_too_long_is_refused_with_the_path_and_the_limit() -> None:
    with pytest.raises(SocketPathTooLongError, match="over 107: /ffff") as refusal:
        require_room(Path("/" + "f" * 90))
    assert refusal.value.limit == 107
    require_room(Path("/" + "f" * 60))


def test_a_path_of_107_bytes_can_be_bound_and_dialled(roots: Roots) -> None:
    folder = roots.host / ("f" * (106 - len(str(roots.host)) - len("/") - len("/.sock") - 5))
    folder.mkdir()
    path = folder / f"{'n' * 5}.sock"
    assert len(str(path)) == 106
    bound = bind_socket(path)
    assert is_listening(path)
    bound.listener.close()


def test_a_bound_socket_listens_and_only_its_owner_may_connect(roots: Roots) -> None:
    path = roots.device_plugins / "x.sock"
    bound = bind_socket(path)
    assert is_listening(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in roots.device_plugins.iterdir()] == ["x.sock"]
    bound.listener.close()


def test_a_socket_in_a_missing_folder_is_an_error_with_the_folder(roots: Roots) -> None:
    with pytest.raises(OSError, match="No such file"):
        bind_socket(roots.plugins_registry / "x.sock")


def test_only_the_own_file_is_unlinked(roots: Roots) -> None:
    path = roots.device_plugins / "x.sock"
    bound = bind_socket(path)
    path.unlink()
    with listen(path):
        assert not bound.is_in_place()
        bound.unlink()
        assert is_listening(path)
    bound.listener.close()


def test_the_own_file_is_unlinked_once(roots: Roots) -> None:
    bound = bind_socket(roots.device_plugins / "x.sock")
    assert bound.is_in_place()
    bound.unlink()
    bound.unlink()
    assert not list(roots.device_plugins.iterdir())
    bound.listener.close()


def test_unused_sockets_of_earlier_processes_are_removed_and_everything_else_stays(
    roots: Roots,
) -> None:
    roots.plugins_registry.mkdir()
    folders = (roots.device_plugins, roots.plugins_registry)
    for folder in folders:
        leave_dead(folder / "intel.com_vf.g7-0123abcd.sock")
        leave_dead(folder / ".intel.com_vf.g8-0123abcd.sock")
        leave_dead(folder / "other.io_gpu.sock")
        leave_dead(folder / "kubelet.sock")
        (folder / "intel.com_file.g7-0123abcd.sock").touch()
    with listen(roots.device_plugins / "intel.com_live.g1-fedcba98.sock"):
        removed = remove_dead((*folders, roots.host / "missing"))
    assert [path.name for path in removed] == [
        ".intel.com_vf.g8-0123abcd.sock",
        "intel.com_vf.g7-0123abcd.sock",
    ] * 2
    assert sorted(path.name for path in roots.device_plugins.iterdir()) == [
        "intel.com_file.g7-0123abcd.sock",
        "intel.com_live.g1-fedcba98.sock",
        "kubelet.sock",
        "other.io_gpu.sock",
    ]


def test_the_go_plugins_dead_socket_of_a_resource_is_removed(roots: Roots) -> None:
    leave_dead(roots.device_plugins / "intel.com_vf.sock")
    leave_dead(roots.device_plugins / "intel.com_other.sock")
    assert find_foreign((roots.device_plugins,), VF) == ()
    assert [path.name for path in roots.device_plugins.iterdir()] == ["intel.com_other.sock"]


def test_a_name_that_is_too_long_for_a_socket_of_the_go_plugin_matches_no_resource(
    roots: Roots,
) -> None:
    longest = f"{'.'.join(['p' * 60] * 4)}/{'n' * 63}"
    assert find_foreign((roots.device_plugins,), longest) == ()


def test_a_link_to_a_socket_elsewhere_is_not_removed(roots: Roots) -> None:
    leave_dead(roots.host / "other.sock")
    for name in ("intel.com_vf.sock", "intel.com_vf.g7-0123abcd.sock"):
        (roots.device_plugins / name).symlink_to(roots.host / "other.sock")
    assert find_foreign((roots.device_plugins,), VF) == ()
    assert remove_dead((roots.device_plugins,)) == ()
    assert len(list(roots.device_plugins.iterdir())) == 2


def test_the_go_plugins_live_socket_is_reported_and_left_alone(roots: Roots) -> None:
    path = roots.device_plugins / "intel.com_vf.sock"
    with listen(path):
        assert find_foreign((roots.device_plugins,), VF) == (path,)
        assert is_listening(path)


def test_a_file_recreated_with_the_same_inode_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    path.touch()
    before = identify(path)
    os.utime(path, ns=(0, 0))
    after = identify(path)
    assert before is not None
    assert after is not None
    assert (before.device, before.inode) == (after.device, after.inode)
    assert before != after


def test_a_socket_that_cannot_have_its_name_leaves_no_hidden_file(roots: Roots) -> None:
    path = roots.device_plugins / "x.sock"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        bind_socket(path)
    assert [p.name for p in roots.device_plugins.iterdir()] == ["x.sock"]

"""The project's own protocol files against those of the release: the same bytes on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import release
from .wire import described

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

_OURS = Path(__file__).parents[2] / "protos"
_VERSIONS = {"deviceplugin": "v1beta1", "pluginregistration": "v1", "podresources": "v1"}


@pytest.fixture(params=sorted(_VERSIONS))
def files(able: None, request: pytest.FixtureRequest) -> tuple[FileDescriptor, FileDescriptor]:
    """A protocol file of ours, and the release's."""
    api = str(request.param)
    ours = _OURS / api / _VERSIONS[api] / "api.proto"
    theirs = release.protos() / f"{api}.proto"
    return _file(ours), _file(theirs)


def _file(proto: Path) -> FileDescriptor:
    return described(proto).FindFileByName(proto.name)


def _fields(message: Descriptor) -> dict[int, tuple[object, ...]]:
    """What decides the bytes of each field: not its name."""
    return {
        field.number: (
            field.type,
            field.is_repeated,
            field.message_type.name if field.message_type else None,
            bool(field.containing_oneof),
        )
        for field in message.fields
    }


def _methods(file: FileDescriptor) -> dict[str, tuple[object, ...]]:
    return {
        method.full_name: (
            method.input_type.full_name,
            method.output_type.full_name,
            method.client_streaming,
            method.server_streaming,
        )
        for service in file.services_by_name.values()
        for method in service.methods
    }


def test_every_field_of_ours_is_one_of_theirs(
    files: tuple[FileDescriptor, FileDescriptor],
) -> None:
    ours, theirs = files
    for name, message in ours.message_types_by_name.items():
        known = _fields(theirs.message_types_by_name[name])
        assert _fields(message).items() <= known.items(), name


def test_every_method_of_ours_is_one_of_theirs(
    files: tuple[FileDescriptor, FileDescriptor],
) -> None:
    ours, theirs = files
    assert _methods(ours)
    assert _methods(ours).items() <= _methods(theirs).items()


def test_a_plugin_answers_all_calls_of_kubelet(able: None) -> None:
    ours = _methods(_file(_OURS / "deviceplugin/v1beta1/api.proto"))
    theirs = _methods(_file(release.protos() / "deviceplugin.proto"))
    assert ours == theirs

"""gRPC calls by the release's own protocol files, read when the tests run: nothing is generated."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from google.protobuf.message import Message

_LARGEST_REPLY = 16 * 1024 * 1024  # what kubelet's pod-resources may send


@cache
def described(proto: Path) -> DescriptorPool:
    """What a protocol file defines, in a pool of its own: packages of the same name never meet."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "set"
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto.parent}"),
                *(f"--descriptor_set_out={output}", proto),
            ],
            check=True,
        )
        files = FileDescriptorSet.FromString(output.read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


class Service:
    """One gRPC service behind a unix socket. Use as a context manager."""

    def __init__(self, proto: Path, name: str, at: Path) -> None:
        self._service = described(proto).FindServiceByName(name)
        options = [("grpc.max_receive_message_length", _LARGEST_REPLY)]
        self._channel = grpc.insecure_channel(f"unix:{at}", options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def call(self, method: str, /, **fields: object) -> Any:  # noqa: ANN401 (known when it runs)
        """The reply to a unary call whose request has these fields."""
        described = self._service.methods_by_name[method]
        request: type[Message] = GetMessageClass(described.input_type)
        reply: type[Message] = GetMessageClass(described.output_type)
        send = self._channel.unary_unary(
            f"/{self._service.full_name}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=reply.FromString,
        )
        return send(request(**fields), timeout=30)

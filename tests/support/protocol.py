"""Protobuf messages and gRPC stubs made from ``protos/`` when the tests run, for the C library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PROTOS = Path(__file__).parents[2] / "protos"
_FILES = (
    "deviceplugin/v1beta1/api.proto",
    "pluginregistration/v1/api.proto",
    "podresources/v1/api.proto",
)


@cache
def _pool() -> DescriptorPool:
    with TemporaryDirectory() as folder:
        output = Path(folder) / "descriptors"
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={_PROTOS}"),
                *(f"--descriptor_set_out={output}", *_FILES),
            ],
            check=True,
        )
        described = FileDescriptorSet.FromString(output.read_bytes())
    pool = DescriptorPool()
    for file in described.file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Any:  # noqa: ANN401 - the class is made at run time
    """The class of a message by its full name, as in ``v1beta1.Device``."""
    return GetMessageClass(_pool().FindMessageTypeByName(name))


def stub(channel: grpc.Channel, service: str, method: str) -> Any:  # noqa: ANN401 - grpc is untyped
    """A callable that calls one method of a service through ``channel``."""
    described = _pool().FindServiceByName(service).methods_by_name[method]
    make = channel.unary_stream if described.server_streaming else channel.unary_unary
    return make(
        f"/{service}/{method}",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=GetMessageClass(described.output_type).FromString,
    )


def handlers(service: str, methods: dict[str, Callable[[Any, Any], Any]]) -> Any:  # noqa: ANN401
    """A service for a server of the C library; all methods are unary."""
    described = _pool().FindServiceByName(service).methods_by_name
    return grpc.method_handlers_generic_handler(
        service,
        {
            name: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=GetMessageClass(described[name].input_type).FromString,
                response_serializer=lambda reply: reply.SerializeToString(),
            )
            for name, answer in methods.items()
        },
    )

"""The gRPC services of one resource: decode requests, encode replies, map errors to statuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, cast

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream
from h2.exceptions import H2Error

from agent import logs
from agent.errors import AgentError, DeviceNotUsableError, UnknownDeviceError
from agent.events.plugin import ListTooLong
from agent.model.answers import Allocation, Backend
from agent.plugin.device_list import DeviceList
from agent.rpc import pluginregistration, v1beta1
from agent.transport.grpc import MAX_MESSAGE_BYTES

API_VERSION = "v1beta1"
_MAX_STATUS_CHARACTERS = 1000
"""A status travels in HTTP/2 headers, for which clients accept 8 KiB and more."""
_RESET_LIMIT_S = 0.1


@contextmanager
def _errors_as_statuses(report_bug: Callable[[Exception], None]) -> Iterator[None]:
    """Map errors to gRPC statuses; kubelet shows the text in an event of the pod."""
    try:
        yield
    except UnknownDeviceError as error:
        raise _status(Status.NOT_FOUND, error) from error
    except DeviceNotUsableError as error:
        raise _status(Status.FAILED_PRECONDITION, error) from error
    except AgentError as error:
        raise _status(Status.INTERNAL, error) from error
    except Exception as error:
        report_bug(error)
        raise GRPCError(
            Status.INTERNAL, f"internal error in the agent: {type(error).__name__}"
        ) from error


def _status(status: Status, error: AgentError) -> GRPCError:
    text = str(error)
    if len(text) > _MAX_STATUS_CHARACTERS:
        text = text[: _MAX_STATUS_CHARACTERS - 4] + " ..."
    return GRPCError(status, text)


class DevicePluginService(v1beta1.DevicePluginBase):
    """The DevicePlugin service of one resource, with the answers of ``answers``.

    An unexpected exception is answered as INTERNAL and passed to ``report_bug``.
    """

    def __init__(
        self,
        resource: str,
        device_list: DeviceList,
        answers: Backend,
        report_bug: Callable[[Exception], None],
    ) -> None:
        self._resource = resource
        self._device_list = device_list
        self._answers = answers
        self._report_bug = report_bug
        self.options = v1beta1.DevicePluginOptions(get_preferred_allocation_available=True)
        self.answering = 0
        """Requests being answered now."""

    async def get_device_plugin_options(
        self, message: v1beta1.Empty
    ) -> v1beta1.DevicePluginOptions:
        """Which of the optional calls kubelet should make."""
        del message
        return self.options

    async def list_and_watch(
        self, message: v1beta1.Empty
    ) -> AsyncIterator[v1beta1.ListAndWatchResponse]:
        """Stream the full list, now and after each change."""
        del message
        task = asyncio.current_task()
        if task is None:
            return
        async with aclosing(cast("Any", self._device_list.follow(task))) as lists:
            async for encoded in lists:
                self._warn_if_too_long(len(encoded))
                # The codec passes bytes that are already a message.
                yield cast("v1beta1.ListAndWatchResponse", encoded)

    def _warn_if_too_long(self, size: int) -> None:
        """Log a list over gRPC's limit: kubelet ends the stream, and the resource is lost."""
        if size <= MAX_MESSAGE_BYTES:
            logs.forget(ListTooLong, self._resource)
            return
        logs.emit_once(
            ListTooLong(
                resource=self._resource,
                bytes=size,
                limit_bytes=MAX_MESSAGE_BYTES,
                fix="split the pool into several resources, for example by ranges of pfNames",
            ),
            self._resource,
        )

    async def allocate(self, message: v1beta1.AllocateRequest) -> v1beta1.AllocateResponse:
        """One answer for each container, or an error for all of them."""
        with self._busy(), _errors_as_statuses(self._report_bug):
            allocations = [
                await self._answers.allocate(self._resource, tuple(request.devices_ids))
                for request in message.container_requests
            ]
        return v1beta1.AllocateResponse(
            container_responses=[_container_response(a) for a in allocations]
        )

    async def get_preferred_allocation(
        self, message: v1beta1.PreferredAllocationRequest
    ) -> v1beta1.PreferredAllocationResponse:
        """Which devices kubelet should prefer, for each container."""
        with self._busy(), _errors_as_statuses(self._report_bug):
            choices = [
                await self._answers.prefer(
                    self._resource,
                    tuple(request.available_device_ids),
                    tuple(request.must_include_device_ids),
                    request.allocation_size,
                )
                for request in message.container_requests
            ]
        return v1beta1.PreferredAllocationResponse(
            container_responses=[
                v1beta1.ContainerPreferredAllocationResponse(device_ids=list(c)) for c in choices
            ]
        )

    async def pre_start_container(
        self, message: v1beta1.PreStartContainerRequest
    ) -> v1beta1.PreStartContainerResponse:
        """Do nothing; kubelet does not call it, since the options do not ask for it."""
        del message
        return v1beta1.PreStartContainerResponse()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self.answering += 1
        try:
            yield
        finally:
            self.answering -= 1
            self._device_list.wakeup.wake()

    async def _call_rpc_handler_server_stream(
        self,
        handler: Callable[[Any], AsyncIterator[Any]],
        stream: Stream[Any, Any],
        request: Any,  # noqa: ANN401 - betterproto2's signature
    ) -> None:
        """Send what the handler yields; close the handler as soon as the stream ends."""
        async with aclosing(cast("Any", handler(request))) as messages:
            try:
                async for message in messages:
                    await stream.send_message(message)
            except asyncio.CancelledError:
                # Replaced or stopped while sending a list: tell the peer that no more follows.
                with suppress(TimeoutError, H2Error):
                    async with asyncio.timeout(_RESET_LIMIT_S):
                        await stream.cancel()
                raise


class RegistrationService(pluginregistration.RegistrationBase):
    """The plugin's part of the watcher handshake; calls ``dialled``, then ``notified``."""

    def __init__(
        self, resource: str, dialled: Callable[[], None], notified: Callable[[bool, str], None]
    ) -> None:
        self._resource = resource
        self._dialled = dialled
        self._notified = notified

    async def get_info(
        self, message: pluginregistration.InfoRequest
    ) -> pluginregistration.PluginInfo:
        """What this socket serves; an empty endpoint means that it serves the API itself."""
        del message
        self._dialled()
        return pluginregistration.PluginInfo(
            type="DevicePlugin", name=self._resource, supported_versions=[API_VERSION]
        )

    async def notify_registration_status(
        self, message: pluginregistration.RegistrationStatus
    ) -> pluginregistration.RegistrationStatusResponse:
        """Kubelet reports the outcome of the registration."""
        self._notified(message.plugin_registered, message.error)
        return pluginregistration.RegistrationStatusResponse()


def _container_response(allocation: Allocation) -> v1beta1.ContainerAllocateResponse:
    return v1beta1.ContainerAllocateResponse(
        envs=dict(allocation.envs),
        devices=[
            v1beta1.DeviceSpec(
                container_path=n.container_path, host_path=n.host_path, permissions=n.permissions
            )
            for n in allocation.nodes
        ],
        annotations=dict(allocation.annotations),
        cdi_devices=[v1beta1.CdiDevice(name=name) for name in allocation.cdi_devices],
    )

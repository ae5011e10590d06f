from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import attrs
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.testing import ChannelFor

from agent.model.answers import Allocation, ListedDevice
from agent.plugin.device_list import DeviceList
from agent.plugin.service import DevicePluginService, RegistrationService
from agent.rpc import pluginregistration, v1beta1
from agent.transport.grpc import WireCodec
from agent.wakeup import Wakeup
from tests.support.fleet import FixedAnswers, Silent
from tests.support.log_lines import LogLines

VF = "intel.com/vf"


@attrs.define
class Served:
    """A service behind a channel in memory."""

    plugin: v1beta1.DevicePluginStub
    registration: pluginregistration.RegistrationStub
    bugs: list[Exception]
    heard: list[object]

    async def allocate(self, *containers: tuple[str, ...]) -> v1beta1.AllocateResponse:
        requests = [v1beta1.ContainerAllocateRequest(devices_ids=list(c)) for c in containers]
        return await self.plugin.allocate(v1beta1.AllocateRequest(container_requests=requests))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    bugs: list[Exception] = []
    heard: list[object] = []
    device_list = DeviceList(Wakeup(), Silent())
    device_list.publish((ListedDevice("a"), ListedDevice("b", healthy=False)))
    services: list[Any] = [
        DevicePluginService(VF, device_list, FixedAnswers(), bugs.append),
        RegistrationService(VF, lambda: heard.append("dialled"), lambda *v: heard.append(v)),
    ]
    async with ChannelFor(services, codec=WireCodec()) as channel:
        stubs = v1beta1.DevicePluginStub(channel), pluginregistration.RegistrationStub(channel)
        yield Served(*stubs, bugs, heard)


async def test_the_options_say_whether_kubelet_should_request_a_preference(served: Served) -> None:
    options = await served.plugin.get_device_plugin_options()
    assert options.get_preferred_allocation_available
    assert not options.pre_start_required


async def test_the_stream_sends_the_device_list(served: Served) -> None:
    async for response in served.plugin.list_and_watch():
        assert [(d.id, d.health) for d in response.devices] == [
            ("a", "Healthy"),
            ("b", "Unhealthy"),
        ]
        break


async def test_a_list_that_kubelet_cannot_take_is_logged_once_with_its_size_and_the_fix(
    log_lines: LogLines,
) -> None:
    devices = tuple(ListedDevice(f"0000:{i >> 8:02x}:{i & 255:02x}.0") for i in range(200_000))
    device_list = DeviceList(Wakeup(), Silent())
    service = DevicePluginService(VF, device_list, FixedAnswers(), lambda _: None)
    sizes = []
    for number in (200_000, 199_999, 10, 200_000):
        device_list.publish(devices[:number])
        async with aclosing(cast("Any", service.list_and_watch(v1beta1.Empty()))) as lists:
            sizes.append(len(await anext(lists)))
    first, again = log_lines.fields("plugin.list_too_long")
    assert (first["resource"], first["bytes"]) == (VF, sizes[0])
    assert "split the pool" in first["fix"]
    assert again["bytes"] == sizes[-1]


async def test_each_container_gets_its_answer(served: Served) -> None:
    response = await served.allocate(("b", "a"), ("c",))
    assert [c.envs for c in response.container_responses] == [{"IDS": "b,a"}, {"IDS": "c"}]


async def test_an_answer_is_passed_on_completely() -> None:
    class Whole(FixedAnswers):
        async def allocate(self, resource: str, device_ids: tuple[str, ...]) -> Allocation:
            del resource, device_ids
            return Allocation(
                envs=(("E", "1"),),
                annotations=(("k", "v"),),
                cdi_devices=("v/c=d",),
            )

    device_list = DeviceList(Wakeup(), Silent())
    service = DevicePluginService(VF, device_list, Whole(), lambda _: None)
    request = v1beta1.AllocateRequest(container_requests=[v1beta1.ContainerAllocateRequest()])
    response = await service.allocate(request)
    assert response.container_responses == [
        v1beta1.ContainerAllocateResponse(
            envs={"E": "1"},
            annotations={"k": "v"},
            cdi_devices=[v1beta1.CdiDevice(name="v/c=d")],
        )
    ]


@pytest.mark.parametrize(
    ("device_id", "status", "text"),
    [
        ("missing1", Status.NOT_FOUND, "intel.com/vf has no device missing1"),
        ("broken1", Status.FAILED_PRECONDITION, "broken1: its VFIO group is gone"),
        ("bug1", Status.INTERNAL, "internal error in the agent: ZeroDivisionError"),
    ],
)
async def test_errors_have_a_status_and_a_text_for_the_pods_event(
    served: Served, device_id: str, status: Status, text: str
) -> None:
    with pytest.raises(GRPCError) as answer:
        await served.allocate(("a",), (device_id,))
    assert (answer.value.status, answer.value.message) == (status, text)
    assert [type(bug) for bug in served.bugs] == [ZeroDivisionError] * (status is Status.INTERNAL)


async def test_a_status_for_thousands_of_ids_stays_short(served: Served) -> None:
    with pytest.raises(GRPCError) as answer:
        await served.allocate(tuple(f"missing{i}" for i in range(5000)))
    assert answer.value.message is not None
    assert len(answer.value.message) == 1000
    assert answer.value.message.endswith(" ...")


async def test_a_preference_is_returned_for_each_container(served: Served) -> None:
    request = v1beta1.ContainerPreferredAllocationRequest(
        available_device_ids=["c", "b", "a"], must_include_device_ids=["c"], allocation_size=2
    )
    response = await served.plugin.get_preferred_allocation(
        v1beta1.PreferredAllocationRequest(container_requests=[request])
    )
    assert [c.device_ids for c in response.container_responses] == [["c", "a"]]


async def test_pre_start_is_answered(served: Served) -> None:
    request = v1beta1.PreStartContainerRequest(devices_ids=["a"])
    assert await served.plugin.pre_start_container(request) == v1beta1.PreStartContainerResponse()


async def test_the_watchers_handshake_is_answered_and_its_result_received(served: Served) -> None:
    info = await served.registration.get_info()
    assert info == pluginregistration.PluginInfo(
        type="DevicePlugin", name=VF, endpoint="", supported_versions=["v1beta1"]
    )
    verdict = pluginregistration.RegistrationStatus(plugin_registered=False, error="no")
    await served.registration.notify_registration_status(verdict)
    assert served.heard == ["dialled", (False, "no")]

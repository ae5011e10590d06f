"""Pods, and kubelet's word about which devices they hold: it outlives every kubelet and agent."""

from __future__ import annotations

import json
from collections.abc import Callable

import attrs

from agent.rpc import v1

CONTAINER = "main"
NAMESPACE = "default"
AGENT_POD = "agent-7xk2p"
"""The agent's own pod, which runs for ever."""
STATIC_POD = "proxy-node1"
"""A pod of a file, which every kubelet knows from its start on."""


@attrs.frozen
class Claim:
    """Devices of one resource in the hands of one pod."""

    resource: str
    devices: tuple[str, ...]


@attrs.define
class Pods:
    """The pods that run, by name, each with one claim."""

    claims: dict[str, Claim] = attrs.Factory(dict)
    recorded: dict[str, Claim] = attrs.Factory(dict)
    """What kubelet has down as given, by pod: it may not have noticed yet that a pod has ended."""
    answered: set[str] = attrs.Factory(set)
    """Devices that the agent has answered for, and may not know yet what became of them."""
    _started: int = 0

    @property
    def held(self) -> dict[str, str]:
        """Device id -> the resource as which it is held."""
        return {i: claim.resource for claim in self.claims.values() for i in claim.devices}

    def start(self, claim: Claim, *, dies: bool = False) -> None:
        """Kubelet gives this to a pod, which runs unless it ``dies`` before."""
        self._started += 1
        name = f"pod-{self._started}"
        self.recorded[name] = claim
        if not dies:
            assert not self.held.keys() & set(claim.devices), "a device is in two hands"
            self.claims[name] = claim

    def forget_ended(self) -> None:
        """Kubelet notices which pods have ended."""
        self.recorded = {name: c for name, c in self.recorded.items() if name in self.claims}

    def checkpoint(self) -> bytes:
        """The file in which kubelet keeps what is given."""
        entries = [
            {
                "PodUID": f"uid-of-{name}",
                "ContainerName": CONTAINER,
                "ResourceName": claim.resource,
                "DeviceIDs": {"0": list(claim.devices)},
                "AllocResp": "",
            }
            for name, claim in self.recorded.items()
        ]
        return json.dumps({"Data": {"PodDeviceEntries": entries}, "Checksum": 1}).encode()

    def end(self, number: int) -> None:
        """One of the pods that run ends."""
        if self.claims:
            names = sorted(self.claims)
            del self.claims[names[number % len(names)]]


class PodResources(v1.PodResourcesListerBase):
    """Kubelet's service that tells of them, once ``is_aware`` of them."""

    def __init__(self, pods: Pods, is_aware: Callable[[], bool]) -> None:
        self._pods = pods
        self._is_aware = is_aware

    async def list(self, message: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:
        """All pods that kubelet knows of, as they are now."""
        del message
        static = v1.PodResources(name=STATIC_POD, namespace="kube-system")
        if not self._is_aware():
            return v1.ListPodResourcesResponse(pod_resources=[static])
        self._pods.forget_ended()
        own = v1.PodResources(name=AGENT_POD, namespace=NAMESPACE)
        mine = [_reply(name, claim) for name, claim in self._pods.claims.items()]
        return v1.ListPodResourcesResponse(pod_resources=[static, own, *mine])


def _reply(pod: str, claim: Claim) -> v1.PodResources:
    # One entry for each NUMA node, as kubelet has it.
    devices = [
        v1.ContainerDevices(resource_name=claim.resource, device_ids=[device])
        for device in claim.devices
    ]
    container = v1.ContainerResources(name=CONTAINER, devices=devices)
    return v1.PodResources(name=pod, namespace=NAMESPACE, containers=[container])

"""Pods, and kubelet's word about which devices they hold: it outlives every kubelet and agent."""

from __future__ import annotations

import attrs

from agent.rpc import v1

CONTAINER = "main"
NAMESPACE = "default"


@attrs.frozen
class Claim:
    """Devices of one resource in the hands of one pod."""

    resource: str
    devices: tuple[str, ...]


@attrs.define
class Pods:
    """The pods that run, by name, each with one claim."""

    claims: dict[str, Claim] = attrs.Factory(dict)
    answered: set[str] = attrs.Factory(set)
    """Devices that the agent has answered for, and may not know yet what became of them."""
    _started: int = 0

    @property
    def held(self) -> dict[str, str]:
        """Device id -> the resource as which it is held."""
        return {i: claim.resource for claim in self.claims.values() for i in claim.devices}

    def start(self, claim: Claim) -> None:
        """A pod runs, and holds this."""
        self._started += 1
        self.claims[f"pod-{self._started}"] = claim

    def end(self, number: int) -> None:
        """One of the pods that run ends."""
        if self.claims:
            names = sorted(self.claims)
            del self.claims[names[number % len(names)]]


class PodResources(v1.PodResourcesListerBase):
    """Kubelet's service that tells of them."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    async def list(self, message: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:
        """All pods, as they are now."""
        del message
        return v1.ListPodResourcesResponse(
            pod_resources=[_reply(name, claim) for name, claim in self._pods.claims.items()]
        )


def _reply(pod: str, claim: Claim) -> v1.PodResources:
    # One entry for each NUMA node, as kubelet has it.
    devices = [
        v1.ContainerDevices(resource_name=claim.resource, device_ids=[device])
        for device in claim.devices
    ]
    container = v1.ContainerResources(name=CONTAINER, devices=devices)
    return v1.PodResources(name=pod, namespace=NAMESPACE, containers=[container])

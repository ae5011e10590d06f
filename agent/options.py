"""The command line of ``run`` as one frozen value."""

from __future__ import annotations

from pathlib import Path

from agent.attrs_classes import frozen
from agent.config.schema import AllocationPolicy
from agent.export.specs import CdiMode
from agent.plugin.registration import RegistrationMode
from agent.roots import Roots


@frozen
class RunOptions:
    """Arguments of ``run``; the help of the command explains each one."""

    roots: Roots
    config_file: Path
    resource_prefix: str
    node_name: str | None = None
    """$NODE_NAME: chooses the file if the configuration is a folder."""
    pod_name: str | None = None
    """$POD_NAME: kubelet's list of pods is complete once it has the agent's own pod."""
    pod_namespace: str | None = None
    """$POD_NAMESPACE."""
    strict: bool = False
    cdi: CdiMode | None = None
    """None = kubelet gets the device nodes themselves."""
    registration: RegistrationMode = "auto"
    allocation_policy: AllocationPolicy = AllocationPolicy.DEFAULT
    netlink: bool = True
    rescan_s: float = 60.0
    http_address: str | None = None
    vf_metrics: bool = False
    """Whether /metrics has the traffic of each VF, and its pod."""

"""How the agent was asked to run: the command line as one frozen value."""

from __future__ import annotations

from pathlib import Path

from agent.attrs_classes import frozen
from agent.config.schema import AllocationPolicy
from agent.export.specs import CdiMode
from agent.plugin.registration import RegistrationMode
from agent.roots import Roots


@frozen
class RunOptions:
    """Arguments of ``run``; the command line says what each one means."""

    roots: Roots
    config_file: Path
    resource_prefix: str
    node_name: str | None = None
    """$NODE_NAME: picks the file where the configuration is a folder."""
    pod_name: str | None = None
    """$POD_NAME: kubelet's list of pods is complete once it has the agent's own."""
    pod_namespace: str | None = None
    """$POD_NAMESPACE."""
    strict: bool = False
    cdi: CdiMode | None = None
    """None = device nodes go straight to kubelet."""
    registration: RegistrationMode = "auto"
    allocation_policy: AllocationPolicy = AllocationPolicy.DEFAULT
    netlink: bool = True
    rescan_s: float = 60.0
    http_address: str | None = None
    vf_metrics: bool = False
    """Whether /metrics tells the traffic of each VF, and which pod has it."""

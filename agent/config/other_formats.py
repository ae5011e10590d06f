"""Recognises other files that are often given instead of a configuration, and says what to do."""

from __future__ import annotations

import re

from agent.config.json_positions import Node, Object
from agent.config.problems import plain, quoted
from agent.config.schema import RESOURCE_LIST

_YAML_LINE = re.compile(r"^(?:---|-\s|[A-Za-z_][\w.-]*:(?:\s|$))")
_YAML_KIND = re.compile(r"^kind:\s*[\"']?(\w+)", re.MULTILINE)
_LOOKED_AT = 65536
"""Characters of a text that are examined: the beginning shows what a file is."""
_POINT_AT_KEY = "mount the ConfigMap and point at the node's own key: "
_KEY_ARGUMENT = "--config-file /etc/pcidp/$(NODE_NAME)"
_MANIFESTS = {
    "ConfigMap": "mount it as a volume and give the file of one key, or print that key: "
    "kubectl get configmap NAME -o jsonpath='{.data.config\\.json}'",
    "SriovNetworkNodePolicy": "the SR-IOV operator makes this agent's configuration from it",
    "SriovNetwork": "the SR-IOV operator makes a network attachment from it",
    "NetworkAttachmentDefinition": "Multus reads it",
    "DaemonSet": "it starts the agent",
}


def recognise(root: Node) -> str | None:
    """What a JSON file without a resource list is; None = unknown."""
    if isinstance(root.value, tuple):
        return _list(root.value)
    if not isinstance(root.value, Object):
        return None
    members = {m.key: m.node for m in root.value.members}
    kind = members["kind"].value if "kind" in members else None
    if isinstance(kind, str) and "apiVersion" in members:
        return _manifest(kind)
    return _other_plugin(members) or _keyed_by_node(members) or _single_pool(root)


def _other_plugin(members: dict[str, Node]) -> str | None:
    if "configList" in members:
        return (
            "this is the configuration of the RDMA shared device plugin "
            "(k8s-rdma-shared-dev-plugin), which shares one RDMA device between pods; "
            f"this agent reads {RESOURCE_LIST}"
        )
    if "cniVersion" in members or members.keys() >= {"type", "name"}:
        return (
            "this is a CNI configuration (of the SR-IOV CNI, for example); it belongs into a "
            f"NetworkAttachmentDefinition, this agent reads {RESOURCE_LIST}"
        )
    return None


def _keyed_by_node(members: dict[str, Node]) -> str | None:
    nodes = [key for key, node in members.items() if _holds_config(node)]
    if not nodes:
        return None
    shown = ", ".join(quoted(node) for node in nodes[:3]) + (" ..." if nodes[3:] else "")
    return f"this is ConfigMap data keyed by node ({shown}): {_POINT_AT_KEY}{_KEY_ARGUMENT}"


def _single_pool(root: Node) -> str | None:
    if not _is_pool(root):
        return None
    return f'this looks like a single pool: write {{"{RESOURCE_LIST}": [ ... ]}} around it'


def recognise_text(text: str) -> str | None:
    """What a text that is not JSON is; None if it may be meant as JSON."""
    head = text[:_LOOKED_AT]
    first = next((s for line in head.splitlines() if (s := line.strip()) and s[0] != "#"), "")
    if not _YAML_LINE.match(first):
        return None
    if kind := _YAML_KIND.search(head):
        return _manifest(kind[1])
    return "this is YAML, the configuration is JSON"


def _manifest(kind: str) -> str:
    what = f"this is a Kubernetes manifest of kind {kind[:40]}, not the configuration itself"
    return f"{what}: {_MANIFESTS[kind]}" if kind in _MANIFESTS else what


def _list(items: tuple[Node, ...]) -> str | None:
    if items and all(_is_pool(item) for item in items):
        return f'this looks like a bare list of pools: write {{"{RESOURCE_LIST}": ... }} around it'
    return None


def _is_pool(node: Node) -> bool:
    return isinstance(node.value, Object) and any(
        m.key.lower() in {"resourcename", "selectors"} for m in node.value.members
    )


def _holds_config(node: Node) -> bool:
    """An object with a resource list, or its text, as in ``data`` of a ConfigMap."""
    if isinstance(node.value, str):
        return f'"{RESOURCE_LIST}"' in node.value
    value = plain(node) if isinstance(node.value, Object) else {}
    return any(key.lower() == RESOURCE_LIST.lower() for key in value)

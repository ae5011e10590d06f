"""The matrix: sets of values that between them take every branch of the chart."""

from __future__ import annotations

from typing import Any

POOL = {"resourceName": "net", "selectors": {"vendors": ["8086"]}}

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "pools": {
        "config": {
            "resourceList": [POOL],
            "nodes": {"node-1.example.com": [{**POOL, "selectors": [{"drivers": ["vfio-pci"]}]}]},
        }
    },
    "text": {"config": {"text": '{"ResourceList": [], "resourceList": []}'}},
    "takeover": {
        "config": {"existingConfigMap": "device-plugin-config"},
        "resourcePrefix": "openshift.io",
        "log": {"level": 10},
        "fullnameOverride": "sriov-device-plugin",
    },
    "privileged-legacy": {
        "security": {"privileged": True, "seccompProfile": "Unconfined"},
        "kubelet": {
            "registration": "legacy",
            "dir": "/var/lib/k0s/kubelet",
        },
    },
    "bare": {
        "http": {"enabled": False},
        "serviceAccount": {"create": False},
        "priorityClassName": "",
        "nodeSelector": {"kubernetes.io/os": None},
        "tolerations": [],
        "networkPolicy": {"enabled": True},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
    },
    "pod-monitor": {
        "metrics": {
            "podMonitor": {
                "enabled": True,
                "labels": {"release": "prometheus"},
                "relabelings": [{"targetLabel": "cluster", "replacement": "a"}],
                "metricRelabelings": [
                    {"action": "drop", "regex": "python_.*", "sourceLabels": ["__name__"]}
                ],
            },
            "prometheusRule": {"enabled": True, "disabled": ["SriovDevicesGone"]},
        },
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
    },
    "service-monitor": {
        "http": {"address": "[::]", "port": 9000},
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"team": "net"}}},
    },
    "everything": {
        "nameOverride": "sriov",
        "commonLabels": {"team": "network"},
        "image": {
            "repository": "registry.example.com:5000/net/sriov-node-agent",
            "digest": f"sha256:{'ab' * 32}",
            "pullPolicy": "Always",
            "pullSecrets": ["registry"],
        },
        "config": {"strict": True},
        "cdi": {"enabled": True, "mode": "both"},
        "allocationPolicy": "numa",
        "log": {"level": "debug", "format": "json"},
        "security": {"capabilities": ["NET_ADMIN"], "seLinuxType": "container_device_plugin_t"},
        "serviceAccount": {"name": "sriov", "annotations": {"example.com/why": "because"}},
        "nodeAffinity": {"nfd": True, "label": "example.com/sriov=yes"},
        "podAnnotations": {"example.com/owner": "net"},
        "podLabels": {"example.com/tier": "node"},
        "extraArgs": ["--rescan-seconds=30"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "tool", "hostPath": {"path": "/opt/ddptool"}}],
        "extraVolumeMounts": [{"name": "tool", "mountPath": "/opt/ddptool", "readOnly": True}],
    },
    "own-affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "sriov", "operator": "Exists"}]}
                    ]
                }
            }
        }
    },
}

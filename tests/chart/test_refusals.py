"""Wrong values are refused before anything reaches a cluster, in words that say what to change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.helm import Helm, RefusedError
from tests.chart.values import POOL

# What is set -> the words by which the schema refuses it: the place and what is allowed there.
SCHEMA: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown value": ({"tolerationz": []}, ("additional properties 'tolerationz' not allowed",)),
    "unknown nested value": (
        {"config": {"resourcelist": []}},
        ("/config", "additional properties 'resourcelist' not allowed"),
    ),
    "number in place of hexadecimal text": (
        {"config": {"resourceList": [{**POOL, "selectors": {"vendors": [8086]}}]}},
        ("/config/resourceList/0/selectors/vendors/0", "got number, want string"),
    ),
    "text in place of a switch": (
        {"config": {"resourceList": [{**POOL, "selectors": {"isRdma": "true"}}]}},
        ("/config/resourceList/0/selectors/isRdma", "got string, want boolean"),
    ),
    "unknown selector": (
        {"config": {"resourceList": [{**POOL, "selectors": {"vendor": ["8086"]}}]}},
        ("/config/resourceList/0/selectors", "'vendor' not allowed"),
    ),
    "unknown selector in a list": (
        {"config": {"resourceList": [{**POOL, "selectors": [{"vendor": ["8086"]}]}]}},
        ("/config/resourceList/0/selectors/0", "'vendor' not allowed"),
    ),
    "a prefix that is no CDI vendor": (
        {"cdi": {"enabled": True}, "resourcePrefix": "a"},
        ("/resourcePrefix", "'a' does not match pattern"),
    ),
    "a pool's prefix that is no CDI vendor": (
        {
            "cdi": {"enabled": True},
            "config": {"resourceList": [{**POOL, "resourcePrefix": "3com.io"}]},
        },
        ("/config/resourceList/0/resourcePrefix", "'3com.io' does not match pattern"),
    ),
    "no selectors": (
        {"config": {"resourceList": [{"resourceName": "a"}]}},
        ("/config/resourceList/0", "missing property 'selectors'"),
    ),
    "empty list of selectors": (
        {"config": {"resourceList": [{"resourceName": "a", "selectors": []}]}},
        ("/config/resourceList/0/selectors", "minItems: got 0, want 1"),
    ),
    "illegal resource name": (
        {"config": {"resourceList": [{"resourceName": "a/b", "selectors": {}}]}},
        ("/config/resourceList/0/resourceName", "'a/b' does not match pattern"),
    ),
    "unknown device type": (
        {"config": {"resourceList": [{**POOL, "deviceType": "gpu"}]}},
        ("deviceType", "'netDevice', 'accelerator', 'auxNetDevice'"),
    ),
    "pool of a node": (
        {"config": {"nodes": {"n1": [{**POOL, "selectors": {"vdpaType": "vhots"}}]}}},
        ("/config/nodes/n1/0/selectors/vdpaType", "'vhost', 'virtio'"),
    ),
    "trailing slash": (
        {"kubelet": {"dir": "/var/lib/kubelet/"}},
        ("/kubelet/dir", "does not match pattern"),
    ),
    "short digest": (
        {"image": {"digest": "sha256:abc"}},
        ("/image/digest", "does not match pattern"),
    ),
    "unknown level": ({"log": {"level": "loud"}}, ("/log/level", "does not match pattern")),
    "port in the address": (
        {"http": {"address": "127.0.0.1:80"}},
        ("/http/address", "does not match pattern"),
    ),
    "port out of range": ({"http": {"port": 70000}}, ("/http/port", "maximum", "65,535")),
    "unknown policy": (
        {"allocationPolicy": "pack"},
        ("/allocationPolicy", "'packed', 'spread', 'numa'"),
    ),
    "argument without a dash": (
        {"extraArgs": ["rescan-seconds=1"]},
        ("/extraArgs/0", "does not match pattern"),
    ),
    "toleration with a typo": (
        {"tolerations": [{"operater": "Exists"}]},
        ("/tolerations/0", "'operater' not allowed"),
    ),
}

# What is set -> words of the chart's own message.
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "two configurations": (
        {"config": {"text": '{"resourceList": []}', "resourceList": [POOL]}},
        "config.text and config.resourceList are both set: keep one of them",
    ),
    "existing and inline": (
        {"config": {"existingConfigMap": "cm", "resourceList": [POOL]}},
        'config.existingConfigMap "cm" is used as it is: remove config.resourceList',
    ),
    "key of nothing": (
        {"config": {"key": "a.json"}},
        'config.key "a.json" chooses a key of config.existingConfigMap, which is not set',
    ),
    "text without a list": ({"config": {"text": '{"pools": []}'}}, 'holds no "resourceList"'),
    "text that is no JSON": ({"config": {"text": "resourceList: []"}}, "is no JSON: invalid char"),
    "two pools of one name": (
        {"config": {"resourceList": [POOL, {**POOL, "resourcePrefix": "intel.com"}]}},
        "config.resourceList[1] defines intel.com/net, which [0] defines too",
    ),
    "two pools of one name on a node": (
        {"config": {"nodes": {"n1": [POOL, POOL]}}},
        "config.nodes.n1[1] defines intel.com/net, which [0] defines too",
    ),
    "reserved prefix": (
        {"resourcePrefix": "kubernetes.io"},
        'resourcePrefix "kubernetes.io" is reserved by Kubernetes',
    ),
    "two affinities": (
        {"affinity": {"podAffinity": {}}, "nodeAffinity": {"nfd": True}},
        "affinity replaces nodeAffinity: set one of them",
    ),
    "monitor without a port": (
        {"http": {"enabled": False}, "metrics": {"podMonitor": {"enabled": True}}},
        "scrape the HTTP port: set http.enabled=true",
    ),
    "monitor of a local address": (
        {"http": {"address": "127.0.0.1"}, "metrics": {"serviceMonitor": {"enabled": True}}},
        'http.address "127.0.0.1" can be reached from the node only',
    ),
    "two monitors": (
        {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        "each sample would be scraped twice",
    ),
    "capabilities of the privileged": (
        {"security": {"privileged": True, "capabilities": ["NET_ADMIN"]}},
        "security.privileged has every capability already",
    ),
    "unknown alert": (
        {"metrics": {"prometheusRule": {"enabled": True, "disabled": ["SriovAgentUp"]}}},
        'names "SriovAgentUp"; the alerts are: SriovAgentDown, SriovStreamDown',
    ),
}


@pytest.mark.parametrize("what", SCHEMA)
def test_the_schema_refuses_and_names_the_place(helm: Helm, what: str) -> None:
    values, words = SCHEMA[what]
    with pytest.raises(RefusedError) as refused:
        helm.template(values)
    for word in ("values don't meet the specifications of the schema", *words):
        assert word in str(refused.value)


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradiction_is_refused_with_an_explanation(helm: Helm, what: str) -> None:
    values, words = CONTRADICTIONS[what]
    with pytest.raises(RefusedError) as refused:
        helm.template(values)
    assert words in str(refused.value)

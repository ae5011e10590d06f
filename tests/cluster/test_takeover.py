"""The Go plugin's manifests with our image, and our chart in their place, on a real cluster."""

from __future__ import annotations

import pytest
import yaml

from tests.chart.test_drop_in import MANIFESTS
from tests.cluster.rig import KERNEL_VFS, NAMESPACE, PF, Rig


@pytest.mark.parametrize(
    ("name", "resource", "env"),
    [
        (
            "go-plugin",
            "intel.com/intel_sriov_netdevice",
            "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE",
        ),
        ("operator", "openshift.io/nics", "PCIDEVICE_OPENSHIFT_IO_NICS"),
    ],
)
def test_a_manifest_of_the_go_plugin_works_if_only_its_image_is_changed(
    rig: Rig, name: str, resource: str, env: str
) -> None:
    plane = rig.cluster.control_plane
    manifest = MANIFESTS / f"{name}.yaml"
    (daemon_set,) = (
        d for d in yaml.safe_load_all(manifest.read_text("utf-8")) if d["kind"] == "DaemonSet"
    )
    namespace = daemon_set["metadata"]["namespace"]
    if namespace != NAMESPACE:
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    rig.applied(manifest)
    rig.allocatable(resource, KERNEL_VFS)
    found = rig.environ(rig.workload(name, resource))
    assert found[env] in rig.host.vfs(PF)
    rig.retire(name)
    plane.kubectl("delete", "daemonset", daemon_set["metadata"]["name"], f"--namespace={namespace}")
    key, value = next(iter(daemon_set["spec"]["selector"]["matchLabels"].items()))
    rig.no_pods(namespace, f"{key}={value}")
    rig.allocatable(resource, 0)


@pytest.mark.parametrize("major", [3, 4])
def test_the_chart_takes_over_from_the_go_plugins_daemonset_under_a_running_pod(
    rig: Rig, major: int
) -> None:
    plane, resource = rig.cluster.control_plane, "intel.com/intel_sriov_netdevice"
    rig.applied(MANIFESTS / "go-plugin.yaml")
    rig.allocatable(resource, KERNEL_VFS)
    before = rig.workload("stays", resource)
    plane.kubectl("delete", "daemonset", "kube-sriov-device-plugin", f"--namespace={NAMESPACE}")
    rig.no_pods(NAMESPACE, "name=sriov-device-plugin")
    config = {"existingConfigMap": "sriovdp-config", "key": "config.json"}
    rig.helm("install", values={"config": config}, major=major)
    rig.allocatable(resource, KERNEL_VFS)
    after = rig.pod("app=stays", "default")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert rig.environ(after) == rig.environ(before)
    second = rig.workload("joins", resource)
    assert rig.environ(second) != rig.environ(after)
    rig.retire("stays", "joins")
    rig.uninstall()
    rig.allocatable(resource, 0)

"""What is rendered is valid for the Kubernetes releases in use, to the last unknown field."""

from __future__ import annotations

from pathlib import Path
from tarfile import open as open_archive

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest
import yaml

import agent
from tests.chart.helm import CHART, EXAMPLES, NAMESPACE, Helm, RefusedError, container, one
from tests.chart.values import MATRIX

RELEASES = ("1.28", "1.31", "1.34", "1.37")
# Kinds of the Prometheus Operator, of which Kubernetes has no schema.
CUSTOM = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
MONITORING = {"metrics": {"dashboard": {"enabled": True}}}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", MATRIX)
def test_every_object_is_valid_for_each_supported_release_of_kubernetes(
    newest_helm: Helm, name: str, release: str
) -> None:
    documents = newest_helm.documents(MATRIX[name], MONITORING)
    for document in documents:
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, release, strict=True)
    assert {d["kind"] for d in documents} >= {"DaemonSet"}


@pytest.mark.parametrize("manifest", sorted((Path(__file__).parent / "manifests").glob("*.yaml")))
@pytest.mark.parametrize("release", RELEASES)
def test_the_manifests_of_the_drop_in_tests_are_valid(manifest: Path, release: str) -> None:
    for document in yaml.safe_load_all(manifest.read_text("utf-8")):
        kubernetes_validate.validate(document, release, strict=True)


@pytest.mark.parametrize("name", MATRIX)
def test_lint_finds_nothing_in_the_matrix(helm: Helm, name: str) -> None:
    assert "0 chart(s) failed" in helm.lint(MATRIX[name])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_lint_finds_nothing_in_the_examples(helm: Helm, example: Path) -> None:
    assert "0 chart(s) failed" in helm.lint(example)


def test_the_package_holds_schema_examples_and_readme(helm: Helm, tmp_path: Path) -> None:
    with open_archive(helm.package(tmp_path)) as archive:
        names = {Path(name).relative_to(CHART.name) for name in archive.getnames()}
    wanted = {"Chart.yaml", "README.md", "values.schema.json", "files/dashboard.json"}
    wanted |= {f"examples/{example.name}" for example in EXAMPLES}
    assert {Path(name) for name in wanted} <= names


def test_the_charts_versions_are_the_agents() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (agent.__version__, agent.__version__)


def test_an_old_kubernetes_is_refused_by_name(newest_helm: Helm) -> None:
    with pytest.raises(RefusedError, match=r"incompatible with Kubernetes v1\.25"):
        newest_helm.template_for("1.25")


@pytest.mark.parametrize("name", MATRIX)
def test_the_pods_have_only_the_configured_rights(newest_helm: Helm, name: str) -> None:
    documents = newest_helm.documents(MATRIX[name])
    pod = one(documents, "DaemonSet")["spec"]["template"]["spec"]
    security = MATRIX[name].get("security", {})
    rights = container(documents)["securityContext"]
    assert rights["readOnlyRootFilesystem"]
    assert rights["privileged"] is security.get("privileged", False)
    if not rights["privileged"]:
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"]["drop"] == ["ALL"]
        assert rights["capabilities"].get("add", []) == security.get("capabilities", [])
    assert not pod["automountServiceAccountToken"]
    assert not {"hostPID", "hostIPC"} & set(pod)
    writable = {
        mount["mountPath"]
        for mount in container(documents)["volumeMounts"]
        if not mount.get("readOnly")
    }
    root = MATRIX[name].get("kubelet", {}).get("dir", "/var/lib/kubelet")
    allowed = {f"{root}/device-plugins", f"{root}/plugins_registry", "/var/run/cdi"}
    allowed |= {"/var/run/k8s.cni.cncf.io/devinfo/dp", "/run/sriov-agent", "/tmp"}  # noqa: S108 - of the container
    assert writable <= allowed


def test_every_volume_is_mounted_and_every_mount_has_its_volume(newest_helm: Helm) -> None:
    for values in MATRIX.values():
        documents = newest_helm.documents(values)
        pod = one(documents, "DaemonSet")["spec"]["template"]["spec"]
        volumes = [volume["name"] for volume in pod["volumes"]]
        mounts = [mount["name"] for mount in container(documents)["volumeMounts"]]
        assert sorted(volumes) == sorted(mounts)
        assert all(d["metadata"].get("namespace") == NAMESPACE for d in documents)


def test_the_dashboard_is_the_unchanged_file(newest_helm: Helm) -> None:
    documents = newest_helm.documents(MONITORING)
    (dashboard,) = (d for d in documents if d["metadata"]["name"].endswith("-dashboard"))
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    text = (CHART / "files/dashboard.json").read_text("utf-8")
    assert dashboard["data"] == {"sriov-node-agent.json": text}

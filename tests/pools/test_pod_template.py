"""What an env may add to its Pods, and every refusal by the path of its field."""

from __future__ import annotations

from typing import Any

import pytest

from pools.pod_template import LARGEST, problems

TEAM = "rl"
DATA = {"name": "data", "emptyDir": {}}


def refusals(template: Any) -> dict[str, str]:
    """Path without its root, and sentence."""
    return {field.removeprefix("podTemplate").removeprefix("."): text for field, text in problems(template, TEAM)}


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"nodeSelector": {"zone": "a", "example.com/disk": ""}},
        {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoExecute",
                          "tolerationSeconds": 60}]},
        {"env": [{"name": "EMPTY"}, {"name": "_X1", "value": "line 1\nline 2"}]},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "rl.conf", "key": "a.b", "optional": True}}}]},
        {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
         "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]},
        {"volumes": [{"name": "c", "configMap": {"name": "rl.conf",
                                                 "items": [{"key": "a", "path": "x/a", "mode": 0o400}]}}]},
        {"volumes": [{"name": "s", "secret": {"secretName": "rl.hub", "optional": True, "defaultMode": 0o400}}]},
        {"volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "rl.data", "readOnly": True}}],
         "volumeMounts": [{"name": "p", "mountPath": "/data", "subPath": "a/b"}, {"name": "p", "mountPath": "/data2"}]},
        {"volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}}}}}}]},
        {"resources": {"limits": {"nvidia.com/gpu": 2, "example.com/fpga": "1"}}},
        {"runtimeClassName": "gvisor", "imagePullSecrets": [{"name": "rl.registry"}]},
    ],
)  # fmt: skip
def test_harmless_wishes_are_taken(template: dict[str, Any]) -> None:
    assert refusals(template) == {}


@pytest.mark.parametrize(
    ("template", "path", "words"),
    [
        ({"hostNetwork": True}, "hostNetwork", "the gateway reaches every port"),
        ({"hostPID": True}, "hostPID", "process tree"),
        ({"hostIPC": True}, "hostIPC", "emptyDir of medium Memory"),
        ({"hostUsers": True}, "hostUsers", "leave it out"),
        ({"shareProcessNamespace": True}, "shareProcessNamespace", "leave it out"),
        ({"serviceAccountName": "admin"}, "serviceAccountName", "sandboxes have none"),
        ({"serviceAccount": "admin"}, "serviceAccount", "sandboxes have none"),
        ({"automountServiceAccountToken": True}, "automountServiceAccountToken", "sandboxes have none"),
        ({"nodeName": "master"}, "nodeName", "use nodeSelector"),
        ({"priorityClassName": "high"}, "priorityClassName", "leave it out"),
        ({"securityContext": {"privileged": True}}, "securityContext.privileged", "powers of the node's root"),
        ({"securityContext": {"allowPrivilegeEscalation": True}}, "securityContext.allowPrivilegeEscalation", "leave"),
        ({"securityContext": {"capabilities": {"add": ["ALL"]}}}, "securityContext.capabilities.add", "envd's own"),
        ({"securityContext": {"procMount": "Unmasked"}}, "securityContext.procMount", "kernel's switches"),
        ({"securityContext": {"sysctls": []}}, "securityContext.sysctls", "kernel's settings"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "securityContext.seccompProfile.type",
         "RuntimeDefault"),
        ({"securityContext": {"runAsUser": 0}}, "securityContext", "the same for every sandbox"),
        ({"containers": [{}, {"ports": [{"hostPort": 80}]}]}, "containers[1].ports[0].hostPort", "port of the node"),
        ({"containers": [{"env": []}]}, "containers", "directly under podTemplate"),
        ({"initContainers": [{"image": "x"}]}, "initContainers", "put what it needs into the image"),
        ({"affinity": {"nodeAffinity": {}}}, "affinity", "use nodeSelector"),
        ({"dnsPolicy": "None"}, "dnsPolicy", "use nodeSelector, tolerations, env,"),
        ({"volumes": [DATA, {"name": "x", "hostPath": {"path": "/"}}]}, "volumes[1].hostPath",
         "would show the node's files to the sandbox; use emptyDir or persistentVolumeClaim."),
        ({"volumes": [{"name": "x", "nfs": {"server": "s", "path": "/"}}]}, "volumes[0].nfs", "emptyDir, configMap"),
        ({"volumes": [{"name": "x", "csi": {"driver": "d"}}]}, "volumes[0].csi", "persistentVolumeClaim or ephemeral"),
        ({"volumes": [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
         "volumes[0].projected.sources[0].serviceAccountToken", "sandboxes have none"),
        ({"volumes": [{"name": "x", "projected": {"sources": []}}]}, "volumes[0].projected", "secret and configMap"),
        ({"volumes": [{"name": "x", "ephemeral": {"volumeClaimTemplate": {"spec": {"dataSource": {}}}}}]},
         "volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource", "another team's"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x", "mountPropagation": "Bidirectional"}]},
         "volumeMounts[0].mountPropagation", "leave it out"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]},
         "env[0].valueFrom.fieldRef", "secretKeyRef"),
        ({"tolerations": [{"key": "node-role.kubernetes.io/control-plane"}]}, "tolerations[0].key", "control plane"),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0].key", "must be given."),
    ],
)  # fmt: skip
def test_what_would_weaken_isolation_is_refused_by_its_path(template: dict[str, Any], path: str, words: str) -> None:
    found = refusals(template)
    assert words in found[path]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "evals.hub", "key": "t"}}}]},
         "env[0].valueFrom.secretKeyRef.name"),
        ({"volumes": [{"name": "x", "secret": {"secretName": "rl-research.hub"}}]}, "volumes[0].secret.secretName"),
        ({"volumes": [{"name": "x", "configMap": {"name": "hub"}}]}, "volumes[0].configMap.name"),
        ({"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "rlx.data"}}]},
         "volumes[0].persistentVolumeClaim.claimName"),
        ({"imagePullSecrets": [{"name": "registry"}]}, "imagePullSecrets[0].name"),
    ],
)  # fmt: skip
def test_another_teams_secrets_and_volumes_cannot_be_had(template: dict[str, Any], path: str) -> None:
    assert "must begin with “rl.”" in refusals(template)[path]


@pytest.mark.parametrize(
    ("template", "path", "words"),
    [
        ({"env": [{"name": "ENVD_PORT", "value": "1"}]}, "env[0].name", "one of envd's own"),
        ({"env": [{"name": "LISTEN_FDS", "value": "1"}]}, "env[0].name", "one of envd's own"),
        ({"volumes": [{"name": "agentbox-envd", "emptyDir": {}}]}, "volumes[0].name", "one of our own names"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/opt/agentbox"}]}, "volumeMounts[0].mountPath", "hide envd"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/opt/agentbox/bin"}]}, "volumeMounts[0].mountPath", "hide envd"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/opt"}]}, "volumeMounts[0].mountPath", "hide envd"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/proc/sys"}]}, "volumeMounts[0].mountPath", "the kernel"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/sys"}]}, "volumeMounts[0].mountPath", "the kernel"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/dev"}]}, "volumeMounts[0].mountPath", "the kernel"),
        ({"volumeMounts": [{"name": "d", "mountPath": "/opt/../opt"}]}, "volumeMounts[0].mountPath", "plain form"),
    ],
)  # fmt: skip
def test_nothing_may_take_our_place(template: dict[str, Any], path: str, words: str) -> None:
    assert words in refusals(template)[path]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ([], ""),
        (None, ""),
        ({"nodeSelector": ["zone"]}, "nodeSelector"),
        ({"nodeSelector": {"a b": "x"}}, "nodeSelector[a b]"),
        ({"nodeSelector": {"zone": 3}}, "nodeSelector[zone]"),
        ({"tolerations": {}}, "tolerations"),
        ({"tolerations": ["gpu"]}, "tolerations[0]"),
        ({"tolerations": [{"key": "gpu", "effect": "Never"}]}, "tolerations[0].effect"),
        ({"tolerations": [{"key": "gpu", "tolerationSeconds": True}]}, "tolerations[0].tolerationSeconds"),
        ({"env": [{"value": "x"}]}, "env[0].name"),
        ({"env": [{"name": "1A"}]}, "env[0].name"),
        ({"env": [{"name": "A\n"}]}, "env[0].name"),
        ({"env": [{"name": "A", "value": 3}]}, "env[0].value"),
        ({"env": [{"name": "A", "value": "\0"}]}, "env[0].value"),
        ({"env": [{"name": "A", "value": "\ud800"}]}, "env[0].value"),
        ({"env": [{"name": "A", "value": "x" * 8193}]}, "env[0].value"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "env[1].name"),
        ({"env": [{"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "rl.a", "key": "b"}}}]},
         "env[0].valueFrom"),
        ({"env": [{"name": f"A{i}"} for i in range(101)]}, "env"),
        ({"volumes": [{"name": "x"}]}, "volumes[0]"),
        ({"volumes": [{"name": "x", "emptyDir": {}, "secret": {"secretName": "rl.a"}}]}, "volumes[0]"),
        ({"volumes": [DATA, DATA]}, "volumes[1].name"),
        ({"volumes": [{"name": "X_Y", "emptyDir": {}}]}, "volumes[0].name"),
        ({"volumes": [{"name": "x", "emptyDir": {"sizeLimit": "much"}}]}, "volumes[0].emptyDir.sizeLimit"),
        ({"volumes": [{"name": "x", "emptyDir": {"medium": "HugePages"}}]}, "volumes[0].emptyDir.medium"),
        ({"volumes": [{"name": "x", "secret": {"secretName": "rl..a"}}]}, "volumes[0].secret.secretName"),
        ({"volumes": [{"name": "x", "secret": {"secretName": "rl.a", "optional": 1}}]}, "volumes[0].secret.optional"),
        ({"volumes": [{"name": "x", "secret": {"secretName": "rl.a", "items": [{"key": "a", "path": "../b"}]}}]},
         "volumes[0].secret.items[0].path"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "volumeMounts[0].name"),
        ({"volumeMounts": [{"name": "x", "mountPath": "x"}]}, "volumeMounts[0].mountPath"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/"}]}, "volumeMounts[0].mountPath"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x", "subPath": "/y"}]}, "volumeMounts[0].subPath"),
        ({"volumes": [DATA], "volumeMounts": [{"name": "data", "mountPath": "/x"}] * 2},
         "volumeMounts[1].mountPath"),
        ({"resources": {"requests": {"cpu": "1"}}}, "resources.requests"),
        ({"resources": {"limits": {"cpu": "1"}}}, "resources.limits[cpu]"),
        ({"resources": {"limits": {"hugepages-2Mi": "1"}}}, "resources.limits[hugepages-2Mi]"),
        ({"resources": {"limits": {"requests.kubernetes.io/x": "1"}}}, "resources.limits[requests.kubernetes.io/x]"),
        ({"resources": {"limits": {"nvidia.com/": 1}}}, "resources.limits[nvidia.com/]"),
        ({"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}, "resources.limits[nvidia.com/gpu]"),
        ({"resources": {"limits": {"nvidia.com/gpu": -1}}}, "resources.limits[nvidia.com/gpu]"),
        ({"runtimeClassName": ""}, "runtimeClassName"),
        ({"imagePullSecrets": [{}]}, "imagePullSecrets[0].name"),
        ({"strange\ud800": 1}, "strange\\ud800"),
    ],
)  # fmt: skip
def test_what_kubernetes_would_refuse_is_refused_here(template: Any, path: str) -> None:
    assert path in refusals(template)


def test_a_template_has_bounds() -> None:
    many = [{"name": f"A{i}", "value": "x" * 200} for i in range(100)]
    assert str(LARGEST) in refusals({"env": many})[""]
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert "too deeply" in refusals(deep)[""]
    assert len(refusals({f"field{i}": 1 for i in range(100)})) == 20


def test_the_search_for_hidden_dangers_ends() -> None:
    deep: Any = {"privileged": True}
    for _ in range(50):
        deep = {"a": [deep]}
    assert list(refusals({"x": deep})) == ["x"]


def test_a_problem_reads_as_one_sentence() -> None:
    (problem,) = problems({"hostPID": True}, TEAM)
    assert str(problem).startswith("podTemplate.hostPID: would put the sandbox into the node's own process tree;")

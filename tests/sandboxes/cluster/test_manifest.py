"""The Pod that a sandbox gets. What an env may not have is in tests/pools/test_pod_template.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pools.pod_template import problems
from sandboxes.cluster.manifest import manifest
from tests.sandboxes.pods import SPEC

TEMPLATE: dict[str, Any] = {
    "nodeSelector": {"zone": "b", "disk": "fast"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "env": [
        {"name": "HF_HOME", "value": "/data/hf"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "rl.hub", "key": "token"}}},
    ],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "rl.data", "readOnly": True}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "runtimeClassName": "gvisor",
    "imagePullSecrets": [{"name": "rl.registry"}],
}
WITH_ENVD = replace(SPEC, envd_image="agentbox/envd:1", envd_install=["/opt/agentbox/bin/envd", "install", "/target"])


def spec_of(pod: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Pod's spec and that of its one container."""
    (container,) = pod["spec"]["containers"]
    return pod["spec"], container


def test_the_pod_gets_no_rights_and_no_secret() -> None:
    spec, container = spec_of(manifest(SPEC))
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER"]},
    }
    assert container["env"] == [{"name": "ENVD_BOOTSTRAP_SHA256", "value": "d" * 64}]
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes", "serviceAccountName"} & set(spec)


def test_the_pod_carries_its_place_and_is_ready_when_envd_answers() -> None:
    pod = manifest(SPEC)
    spec, container = spec_of(pod)
    assert pod["metadata"] == {
        "name": "sb-iabc",
        "labels": {
            "app.kubernetes.io/managed-by": "agentbox",
            "agentbox.io/sandbox": "iabc",
            "agentbox.io/team": "rl",
            "agentbox.io/env": "base",
            "agentbox.io/pool": "base-1c",
        },
    }
    assert spec["nodeSelector"] == {"zone": "a"}
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 1)
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 49983}
    assert container["ports"] == [{"name": "envd", "containerPort": 49983}]


def test_requests_equal_limits_and_disk_is_limited_when_the_type_says_so() -> None:
    _, container = spec_of(manifest(SPEC))
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi"}
    _, container = spec_of(manifest(replace(SPEC, disk_mib=1024)))
    assert container["resources"]["limits"]["ephemeral-storage"] == "1024Mi"
    assert container["resources"]["requests"] == container["resources"]["limits"]


def test_a_type_may_reserve_less_cpu_and_memory_than_a_sandbox_may_use() -> None:
    spec = replace(WITH_ENVD, disk_mib=1024, cpu_request_millis=20, memory_request_mib=64)
    pod, container = spec_of(manifest(spec))
    assert container["resources"] == {
        "limits": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "1024Mi"},
        "requests": {"cpu": "20m", "memory": "64Mi", "ephemeral-storage": "1024Mi"},
    }
    assert pod["initContainers"][0]["resources"] == container["resources"], "else it would decide the placement"


def test_envd_is_brought_by_an_image_of_its_own_and_cannot_be_changed_by_the_sandbox() -> None:
    spec, container = spec_of(manifest(WITH_ENVD))
    (installer,) = spec["initContainers"]
    (volume,) = spec["volumes"]
    assert (installer["image"], installer["command"][1:]) == ("agentbox/envd:1", ["install", "/target"])
    assert installer["volumeMounts"] == [{"name": volume["name"], "mountPath": "/target"}]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/opt/agentbox", "readOnly": True}]
    assert set(volume) == {"name", "emptyDir"}
    assert installer["resources"] == container["resources"], "a quota counts both, and the larger asks for no more"
    assert installer["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_an_envs_wishes_reach_its_pods() -> None:
    assert problems(TEMPLATE, "rl") == []
    spec, container = spec_of(manifest(replace(SPEC, template=TEMPLATE)))
    for name in ("tolerations", "volumes", "runtimeClassName", "imagePullSecrets"):
        assert spec[name] == TEMPLATE[name]
    assert container["volumeMounts"] == TEMPLATE["volumeMounts"]
    assert container["env"][1:] == [
        {"name": "ENVD_VAR_HF_HOME", "value": "/data/hf"},
        {"name": "ENVD_VAR_TOKEN", "valueFrom": {"secretKeyRef": {"name": "rl.hub", "key": "token"}}},
    ]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": "1"}


def test_the_pool_and_the_operator_have_the_last_word() -> None:
    spec, _ = spec_of(manifest(replace(SPEC, template=TEMPLATE, runtime_class="kata")))
    assert spec["nodeSelector"] == {"zone": "a", "disk": "fast"}
    assert spec["runtimeClassName"] == "kata"


def test_the_envs_volumes_come_beside_ours_and_the_installer_gets_none_of_its_resources() -> None:
    spec, container = spec_of(manifest(replace(WITH_ENVD, template=TEMPLATE)))
    assert [each["name"] for each in spec["volumes"]] == ["agentbox-envd", "data"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/opt/agentbox", "/data"]
    assert "nvidia.com/gpu" not in spec["initContainers"][0]["resources"]["limits"]


def test_only_known_fields_of_a_template_are_read() -> None:
    strange = {"hostNetwork": True, "securityContext": {"privileged": True}, "serviceAccountName": "admin"}
    assert manifest(replace(SPEC, template=strange)) == manifest(SPEC)

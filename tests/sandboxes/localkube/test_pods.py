"""Pods as processes: their life, logs, commands, limits."""

import http.client
import json
import time
from typing import Any

import pytest
from kubernetes import stream

from .conftest import NAMESPACE, PODS, PYTHON, Kube, condition, container_state, wait_for

pytestmark = pytest.mark.namespaces
STRATEGIC = "application/strategic-merge-patch+json"


def health(address: str) -> int:
    connection = http.client.HTTPConnection(address, 49983, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()


def ended(kube: Kube, name: str) -> dict[str, Any]:
    pod = wait_for(lambda: kube.pod(name), lambda pod: "terminated" in container_state(pod))
    return pod | {"end": container_state(pod)["terminated"]}


def log(kube: Kube, name: str, **query: Any) -> str:
    return str(kube.client.read_namespaced_pod_log(name, NAMESPACE, **query))


def test_a_pod_becomes_ready_answers_at_its_address_and_is_gone_after_deletion(kube: Kube) -> None:
    kube.create("daemon")
    pod = kube.ready("daemon")
    address = pod["status"]["podIP"]
    assert address.startswith("127.")
    assert pod["status"]["phase"] == "Running"
    assert health(address) == 204
    kube.delete("daemon")
    kube.gone("daemon")
    with pytest.raises(ConnectionRefusedError):
        health(address)


def test_a_pod_without_a_probe_is_ready_when_it_runs(kube: Kube) -> None:
    kube.create("simple", command=["sleep", "60"])
    assert kube.ready("simple")["status"]["containerStatuses"][0]["started"]


def test_a_program_that_ends_leaves_its_code_and_its_log(kube: Kube) -> None:
    kube.create("short", command=["sh", "-c", "echo out; echo err >&2; printf rest; exit 3"])
    pod = ended(kube, "short")
    assert (pod["end"]["exitCode"], pod["end"]["reason"], pod["status"]["phase"]) == (3, "Error", "Failed")
    assert condition(pod, "Ready")["reason"] == "PodFailed"
    assert sorted(log(kube, "short").split()) == ["err", "out", "rest"]


def test_a_program_that_succeeds_completes_its_pod(kube: Kube) -> None:
    kube.create("fine", command=["true"])
    pod = ended(kube, "fine")
    assert (pod["end"]["reason"], pod["status"]["phase"]) == ("Completed", "Succeeded")


def test_a_program_that_does_not_exist_says_so(kube: Kube) -> None:
    kube.create("typo", command=["no-such-program"])
    end = ended(kube, "typo")["end"]
    assert (end["reason"], end["exitCode"]) == ("StartError", 128)
    assert end["message"].endswith('exec: "no-such-program": executable file not found in $PATH: unknown')


def test_a_missing_image_is_told_and_waited_for(kube: Kube) -> None:
    kube.create("missing", image="nowhere/thing:1")
    pod = wait_for(
        lambda: kube.pod("missing"),
        lambda pod: container_state(pod).get("waiting", {}).get("reason") == "ImagePullBackOff",
    )
    assert 'Back-off pulling image "nowhere/thing:1"' in container_state(pod)["waiting"]["message"]
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3Dmissing,reason%3DFailed"
    messages = " ".join(event["message"] for event in kube.call("GET", path)["items"])
    assert "ErrImagePull" in messages
    assert "not found" in messages
    kube.delete("missing")
    kube.gone("missing")


def test_another_image_restarts_the_container_in_place(kube: Kube) -> None:
    kube.create("swap")
    before = kube.ready("swap")["status"]
    patch_image(kube, "base:2")
    wait_for(lambda: kube.pod("swap"), lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    after = kube.ready("swap")["status"]
    old, new = before["containerStatuses"][0], after["containerStatuses"][0]
    assert after["podIP"] == before["podIP"]
    assert new["containerID"] != old["containerID"]
    assert (new["image"], new["lastState"]["terminated"]["containerID"]) == ("base:2", old["containerID"])
    assert health(after["podIP"]) == 204


def test_nothing_is_told_between_two_containers_of_one_pod(kube: Kube) -> None:
    """A kubelet reports the old container until the new one runs: no end of the Pod, whatever its restart policy."""
    kube.create("swap")
    version = kube.ready("swap")["metadata"]["resourceVersion"]
    patch_image(kube, "base:2")
    wait_for(lambda: kube.pod("swap"), lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    kube.ready("swap")
    told = kube.call_text(
        f"{PODS}?watch=1&fieldSelector=metadata.name%3Dswap&resourceVersion={version}&timeoutSeconds=1"
    ).splitlines()
    assert {json.loads(line)["object"].get("status", {}).get("phase", "Running") for line in told} == {"Running"}


def test_a_wrong_image_ends_a_pod_that_is_not_restarted(kube: Kube) -> None:
    kube.create("swap")
    old = kube.ready("swap")["status"]["containerStatuses"][0]
    patch_image(kube, "nowhere/thing:1")
    end = ended(kube, "swap")["end"]
    assert end["containerID"] == old["containerID"]
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3Dswap,type%3DWarning"
    assert any("not found" in event["message"] for event in kube.call("GET", path)["items"])


def test_a_wrong_image_is_waited_for_by_one_that_is_restarted(kube: Kube) -> None:
    kube.create("swap", restartPolicy="Always")
    kube.ready("swap")
    patch_image(kube, "nowhere/thing:1")
    pod = wait_for(lambda: kube.pod("swap"), lambda pod: "waiting" in container_state(pod))
    assert "not found" in container_state(pod)["waiting"]["message"]
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    patch_image(kube, "base:2")
    assert kube.ready("swap")["status"]["containerStatuses"][0]["image"] == "base:2"


def patch_image(kube: Kube, image: str) -> None:
    patch = {"spec": {"containers": [{"name": "main", "image": image}]}}
    kube.call("PATCH", f"{PODS}/swap", patch, STRATEGIC)


def test_a_crashing_container_is_restarted_and_then_backed_off(kube: Kube) -> None:
    kube.create("loop", command=["sh", "-c", "echo again; exit 1"], restartPolicy="Always")
    pod = wait_for(
        lambda: kube.pod("loop"),
        lambda pod: container_state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )
    waiting = container_state(pod)["waiting"]
    assert waiting["message"].startswith("back-off 10s restarting failed container=main pod=loop_agentbox(")
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert log(kube, "loop", previous=True) == "again\n"
    kube.delete("loop")
    kube.gone("loop")


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(kube: Kube) -> None:
    kube.create("stubborn", command=["sleep", "100"])
    kube.ready("stubborn")
    began = time.monotonic()
    kube.delete("stubborn", gracePeriodSeconds=1)
    assert "deletionTimestamp" in kube.pod("stubborn")["metadata"]
    kube.gone("stubborn")
    assert time.monotonic() - began > 0.9


def test_everything_in_a_pod_ends_with_it(kube: Kube) -> None:
    marker = "98765.4321"
    kube.create("parent", command=["sh", "-c", f"setsid sleep {marker} & wait"])
    kube.ready("parent")
    wait_for(lambda: sleeping(marker), lambda found: found > 0)
    kube.delete("parent", gracePeriodSeconds=0)
    wait_for(lambda: sleeping(marker), lambda found: found == 0)


def sleeping(marker: str) -> int:
    import psutil

    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    return sum(command[-1:] == [marker] for command in commands if command)


def test_too_much_memory_is_reported_as_such(kube: Kube) -> None:
    if "no limits" in kube.process.log.read_text():
        pytest.skip("control groups cannot be written here")
    command = [PYTHON, "-c", "hoard = bytearray(200 << 20)"]
    kube.create("hungry", command=command, container={"resources": {"limits": {"memory": "64Mi"}}})
    end = ended(kube, "hungry")["end"]
    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)


def test_logs_can_be_cut_stamped_and_followed(kube: Kube) -> None:
    script = "for i in 1 2 3; do echo line $i; done; sleep 0.5; echo last; sleep 0.2"
    kube.create("talker", command=["sh", "-c", script])
    kube.ready("talker")
    with kube.client.read_namespaced_pod_log("talker", NAMESPACE, follow=True, _preload_content=False) as answer:
        assert answer.data.decode() == "line 1\nline 2\nline 3\nlast\n"
    assert log(kube, "talker", tail_lines=1) == "last\n"
    stamped = log(kube, "talker", timestamps=True).splitlines()[-1].split()
    assert (stamped[0].endswith("Z"), stamped[1]) == (True, "last")
    since = kube.call_text(f"{PODS}/talker/log?sinceTime={stamped[0]}")
    assert since.endswith("last\n")


def test_a_flood_of_output_is_kept_within_bounds(kube: Kube) -> None:
    kube.create("flood", command=["sh", "-c", "yes | head -c 3000000; echo end"])
    ended(kube, "flood")
    text = log(kube, "flood")
    assert text.endswith("end\n")
    assert len(text) < 2_500_000


def test_logs_that_do_not_exist_are_refused_in_words(kube: Kube) -> None:
    kube.create("quiet", image="missing")
    wait_for(lambda: kube.pod("quiet"), lambda pod: "waiting" in container_state(pod))
    refusals = {"": "waiting to start", "?previous=true": "previous terminated", "?container=x": "not valid"}
    for query, words in refusals.items():
        assert words in kube.refused_text(f"{PODS}/quiet/log{query}")


def test_exec_gives_output_code_and_input(kube: Kube) -> None:
    kube.create("shell", command=["sleep", "100"])
    kube.ready("shell")
    assert kube.run("shell", "sh", "-c", "echo $HOSTNAME; id -un") == "shell\nroot\n"
    session = stream.stream(
        kube.client.connect_get_namespaced_pod_exec, "shell", NAMESPACE, command=["sh", "-c", "cat; exit 7"],
        stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    session.write_stdin("over the wire\n")
    wait_for(lambda: session.peek_stdout(timeout=1), lambda text: "over the wire" in text)
    session.close_channel(0)
    session.run_forever(timeout=10)
    assert session.returncode == 7


def test_exec_without_a_running_container_is_refused(kube: Kube) -> None:
    kube.create("done", command=["true"])
    ended(kube, "done")
    session = stream.stream(
        kube.client.connect_get_namespaced_pod_exec, "done", NAMESPACE, command=["true"],
        stdin=False, stdout=True, stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    session.run_forever(timeout=10)
    assert "container not found" in session.read_channel(3)


def test_the_container_gets_its_variables_folder_and_user(kube: Kube) -> None:
    env = [{"name": "ANSWER", "value": "42"}, {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    container = {"env": env, "workingDir": "/data", "securityContext": {"runAsUser": 1000}}
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    command = ["sh", "-c", "echo $ANSWER $ME $HOME $PWD; id -un; touch file && ls; grep CapEff /proc/self/status"]
    kube.create("dressed", command=command, container=container, volumes=[{"name": "data", "emptyDir": {}}])
    pod = ended(kube, "dressed")
    first, user, listing, powers = log(kube, "dressed").splitlines()
    assert first == f"42 {pod['status']['podIP']} /home/user /data"
    assert (user, listing, int(powers.split()[1], 16)) == ("user", "file", 0)


def test_a_volume_that_localkube_lacks_is_named(kube: Kube) -> None:
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    kube.create("volume", container=container, volumes=[{"name": "data", "hostPath": {"path": "/"}}])
    pod = wait_for(lambda: kube.pod("volume"), lambda pod: "CreateContainerError" in json.dumps(container_state(pod)))
    assert "--mount SOURCE:/data" in container_state(pod)["waiting"]["message"]

"""What the single-node cluster is for: Pods from images in its registry, reached by their addresses."""

from __future__ import annotations

from tests.kubernetes.single_node import PAGE, SingleNode, get, manage


def test_a_pod_from_a_pushed_image_answers_on_its_address(cluster: SingleNode) -> None:
    pod = cluster.run_pod("web", cluster.push_web_image())
    assert get(f"http://{pod['status']['podIP']}:8080/") == PAGE
    cluster.delete_pod("web")


def test_pods_reach_one_another(cluster: SingleNode) -> None:
    image = cluster.push_web_image()
    server, client = cluster.run_pod("server", image), cluster.run_pod("client", image)
    url = f"http://{server['status']['podIP']}:8080/"
    assert cluster.kubectl("exec", client["metadata"]["name"], "--", "busybox", "wget", "-qO-", url) == PAGE
    cluster.delete_pod("server")
    cluster.delete_pod("client")


def test_a_name_without_a_host_comes_from_the_registry(cluster: SingleNode) -> None:
    cluster.push_web_image("agentbox/web")
    pod = cluster.run_pod("bare", "agentbox/web:1")
    assert get(f"http://{pod['status']['podIP']}:8080/") == PAGE
    cluster.delete_pod("bare")


def test_the_server_knows_its_version_and_status_shows_it(cluster: SingleNode) -> None:
    version = cluster.client.call("GET", "/version")
    done = manage("status")
    assert done.returncode == 0
    assert version["gitVersion"] in done.stdout
    assert cluster.kubeconfig in done.stdout


def test_nobody_skips_the_check_of_certificates(cluster: SingleNode) -> None:
    for file in cluster.state.glob("*kubeconfig"):
        assert "insecure" not in file.read_text()
        assert str(cluster.state / "pki" / "ca.crt") in file.read_text()

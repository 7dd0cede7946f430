"""AgentBox as `make run CLUSTER=kubernetes` starts it, on the cluster that tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.kubernetes.single_node import SingleNode
from tests.stack import Stack, until


@contextmanager
def make_run(cluster: SingleNode) -> Iterator[Stack]:
    """The cluster goes on afterwards, without the Pods."""
    stack = Stack("--cluster", "kubernetes", folder=cluster.state.parent)
    stack.start()
    try:
        yield stack
    finally:
        code = stack.stop()
        for name in pods(cluster):
            cluster.client.delete(name)
        until(lambda: not pods(cluster), 60, lambda: pods(cluster))
    assert code == 0, stack.said()


def pods(cluster: SingleNode) -> set[str]:
    return {pod.name for pod in cluster.client.list_pods()[0]}

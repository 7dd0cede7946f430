"""Which objects a list is about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.kube import SLEEP, Kube, until

LABELS = {"one": {"app": "a"}, "two": {"app": "b", "tier": "x"}, "three": {}, "four": {"app": ""}}


@pytest.fixture
def labelled(kube: Kube) -> Iterator[Kube]:
    for name, labels in LABELS.items():
        kube.park(name, metadata={"labels": labels})
    return kube


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=a", ["one"]),
        ("app==a", ["one"]),
        ("app!=a", ["four", "three", "two"]),
        ("app=", ["four"]),
        ("app in (a, b)", ["one", "two"]),
        ("app in (a,)", ["four", "one"]),
        ("app notin (a)", ["four", "three", "two"]),
        ("app", ["four", "one", "two"]),
        ("!app", ["three"]),
        ("app,tier notin (x)", ["four", "one"]),
        ("app in (a,b),tier=x", ["two"]),
        (" app = a ", ["one"]),
        ("nothing=here", []),
        ("app.kubernetes.io/name=x", []),
    ],
)
def test_a_label_selector_says_which(labelled: Kube, selector: str, expected: list[str]) -> None:
    assert labelled.names(labelSelector=selector) == expected


@pytest.mark.parametrize(
    "selector", [",,", "app in a", "app=a,", "app in (a", "=a", "app=a b", "app=-a", "-app", "a/b/c"]
)
def test_a_bad_label_selector_is_refused(kube: Kube, selector: str) -> None:
    answer = kube.list(labelSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest"), answer


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=two", ["two"]),
        ("metadata.name!=two", ["four", "one", "three"]),
        ("metadata.name==two,status.phase=Pending", ["two"]),
        ("status.phase!=Pending", []),
        ("spec.nodeName=", ["four", "one", "three", "two"]),
        ("spec.restartPolicy=Never", ["four", "one", "three", "two"]),
        ("spec.schedulerName!=nobody", []),
    ],
)
def test_a_field_selector_says_which(labelled: Kube, selector: str, expected: list[str]) -> None:
    assert labelled.names(fieldSelector=selector) == expected


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("spec.color=red", "field label not supported: spec.color"),
        ("metadata.labels.app=a", "field label not supported: metadata.labels.app"),
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
    ],
)
def test_a_bad_field_selector_is_refused(kube: Kube, selector: str, words: str) -> None:
    answer = kube.list(fieldSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert words in answer.message


def test_the_events_of_one_pod_are_found(kube: Kube) -> None:
    """As the product looks for the reason why a Pod did not start."""
    pod = kube.create("named", container={"command": SLEEP}, nodeSelector={"no": "such-node"})
    query = {"fieldSelector": f"involvedObject.uid={pod['metadata']['uid']},type=Warning"}
    path = kube.path("events")
    found = until(lambda: kube.call("GET", path, query=query).body["items"], lambda items: items)
    assert [event["reason"] for event in found] == ["FailedScheduling"]
    assert kube.call("GET", path, query={"fieldSelector": "involvedObject.uid=another"}).body["items"] == []

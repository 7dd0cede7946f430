"""Lists: of which moment they are, and how a long one comes in pages."""

from __future__ import annotations

import pytest

from tests.contract.kube import Answer, Json, Kube, until
from tests.contract.sightings import Seen

FUTURE = str(10**17)
TOO_OLD = "The provided continue parameter is too old to display a consistent list result. You can start a new list"


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return [item["metadata"]["name"] for item in answer.body["items"]]


def page(kube: Kube, token: str = "", **query: str) -> Answer:
    return kube.list(**{"limit": "2"} | ({"continue": token} if token else {}) | query)


def token_of(answer: Answer) -> str:
    return str(answer.body["metadata"].get("continue", ""))


def version_of(item: Json) -> str:
    return str(item["metadata"]["resourceVersion"])


def forgotten(answer: Answer) -> bool:
    """A real API server has its own memory of lists; every 15 s it looks whether etcd was compacted."""
    return answer.status == 410


def park_many(kube: Kube, number: int) -> list[str]:
    made = [f"pod-{each}" for each in range(number)]
    for name in made:
        kube.park(name, metadata={"labels": {"app": "a"}})
    return made


def test_a_list_names_its_moment_and_is_sorted(kube: Kube) -> None:
    for name in ("b", "c", "a"):
        last = kube.park(name)
    answer = kube.list()
    assert names(answer) == ["a", "b", "c"]
    assert int(version_of(answer.body)) >= int(version_of(last))
    assert [item.get("kind") for item in answer.body["items"]] == [None] * 3


def test_a_list_not_older_than_a_version_has_what_was_there_then(kube: Kube) -> None:
    first = kube.park("first")
    kube.park("second")
    assert "first" in names(kube.list(resourceVersion=version_of(first)))
    assert set(names(kube.list(resourceVersion="0"))) <= {"first", "second"}


def test_a_list_of_exactly_one_version_shows_the_past(kube: Kube) -> None:
    kube.park("kept")
    last = kube.park("deleted")
    kube.delete("deleted")
    kube.park("later")
    then = kube.list(resourceVersion=version_of(last), resourceVersionMatch="Exact")
    assert names(then) == ["deleted", "kept"]
    assert version_of(then.body) == version_of(last)


def test_a_list_of_a_forgotten_version_has_expired(kube: Kube) -> None:
    old = kube.park("old")
    kube.park("new")
    kube.compact()
    query = {"resourceVersion": version_of(old), "resourceVersionMatch": "Exact"}
    answer = until(lambda: kube.list(**query), forgotten)
    assert answer.reason == "Expired"
    assert answer.message == "The resourceVersion for the provided list is too old."


def test_a_list_from_the_future_is_refused(kube: Kube, seen: Seen) -> None:
    answer = kube.list(resourceVersion=FUTURE)
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.message.startswith(f"Timeout: Too large resource version: {FUTURE}, current: ")
    assert answer.body["details"]["causes"] == seen("version-of-the-future", answer.body)["details"]["causes"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"resourceVersion": "abc"}, "resourceVersion"),
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersion": "5", "resourceVersionMatch": "Perhaps"}, "resourceVersionMatch"),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"limit": "many"}, "many"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(kube: Kube, query: dict[str, str], word: str) -> None:
    answer = kube.list(**query)
    assert answer.status in (400, 422), answer
    assert word in answer.message


def test_pages_are_of_one_moment(kube: Kube) -> None:
    made = park_many(kube, 5)
    first = page(kube)
    kube.delete("pod-3")
    kube.park("pod-9")
    second = page(kube, token_of(first))
    third = page(kube, token_of(second))
    assert [*names(first), *names(second), *names(third)] == made
    assert {version_of(each.body) for each in (first, second, third)} == {version_of(first.body)}
    assert [each.body["metadata"].get("remainingItemCount") for each in (first, second, third)] == [3, 1, None]
    assert token_of(third) == ""


def test_pages_of_selected_pods_do_not_say_how_many_remain(kube: Kube) -> None:
    park_many(kube, 5)
    for query in ({"labelSelector": "app=a"}, {"fieldSelector": "metadata.name!=pod-9"}):
        first = page(kube, **query)
        assert len(names(first)) == 2
        assert token_of(first)
        assert "remainingItemCount" not in first.body["metadata"]
        assert names(page(kube, token_of(first), **query)) == ["pod-2", "pod-3"]


def test_a_token_of_forgotten_pages_has_expired(kube: Kube, seen: Seen) -> None:
    park_many(kube, 3)
    first = page(kube)
    kube.park("news")
    kube.compact()
    answer = until(lambda: page(kube, token_of(first)), forgotten)
    assert answer.reason == "Expired"
    assert answer.message.startswith(TOO_OLD)
    assert seen("continue-expired", answer.body)["message"].startswith(TOO_OLD)


def test_a_token_that_is_none_is_refused(kube: Kube) -> None:
    answer = page(kube, "!")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith("invalid continue token: continue key is not valid: ")


def test_the_product_lists_across_pages(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxes.cluster.client.PAGE", 2)
    ours = {"labels": {"app.kubernetes.io/managed-by": "agentbox", "agentbox.io/sandbox": "i1"}}
    for name in ("one", "two", "three"):
        kube.park(name, metadata=ours)
    kube.park("of-others")
    pods, version = kube.client.list_pods()
    assert [pod.name for pod in pods] == ["one", "three", "two"]
    assert int(version) >= max(int(pod.version) for pod in pods)

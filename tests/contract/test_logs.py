"""What a Pod's log gives, how much of it, and how one that is not there is refused."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.contract.kube import Answer, Kube, until
from tests.contract.lives import becomes, ends, log, shell, waits
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

SCRIPT = "for i in 1 2 3; do echo line $i; done; sleep 0.3; echo wrong >&2; sleep 1; printf last"
LINES = "line 1\nline 2\nline 3\nwrong\nlast"


@pytest.fixture
def talker(kube: Kube) -> str:
    """A Pod that has told its lines, the last of them a second after the others."""
    kube.create("talker", container=shell(SCRIPT))
    ends(kube, "talker")
    until(lambda: log(kube, "talker").message, lambda text: text.endswith("last"))
    return "talker"


def test_a_log_can_be_cut_in_every_way(kube: Kube, talker: str) -> None:
    assert log(kube, talker).message == LINES
    assert log(kube, talker, container="main").message == LINES
    assert log(kube, talker, tailLines=2).message == "wrong\nlast"
    assert log(kube, talker, tailLines=0).message == ""
    assert log(kube, talker, limitBytes=9).message == "line 1\nli"
    assert log(kube, talker, tailLines=2, limitBytes=3).message == "wro"
    assert log(kube, talker, follow="true", tailLines=1).message == "last", "it has ended, and so does the answer"
    assert log(kube, talker, follow="true", limitBytes=9).message == "line 1\nli"
    assert log(kube, talker, sinceSeconds=3600).message == LINES


def test_its_lines_have_times(kube: Kube, talker: str) -> None:
    stamped = [line.split(" ", 1) for line in log(kube, talker, timestamps="true").message.splitlines()]
    assert [text for _, text in stamped] == LINES.splitlines()
    times = [datetime.fromisoformat(time) for time, _ in stamped]
    assert times == sorted(times)
    assert stamped[-1][0].endswith("Z")
    assert log(kube, talker, sinceTime=stamped[-1][0]).message == "last"
    later = (times[-1] + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert log(kube, talker, sinceTime=later).message == ""
    east = (times[-1] + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S+02:00")
    assert log(kube, talker, sinceTime=east).message == "last"


def test_to_follow_a_log_is_to_read_it_until_the_container_ends(kube: Kube) -> None:
    kube.create("talker", container=shell(SCRIPT))
    becomes(kube, "talker", lambda pod: pod.ready)
    assert log(kube, "talker", follow="true").message == LINES


@pytest.mark.parametrize(
    ("reason", "image", "words"),
    [
        ("ImagePullBackOff", "nowhere/thing:1", "trying and failing to pull image"),
        ("InvalidImageName", "nowhere/Thing:1", "InvalidImageName"),
    ],
)
def test_a_container_that_waits_has_no_log(kube: Kube, reason: str, image: str, words: str) -> None:
    kube.create("quiet", container={"image": image})
    waits(kube, "quiet", reason)
    refused(log(kube, "quiet"), f'container "main" in pod "quiet" is waiting to start: {words}')
    refused(log(kube, "quiet", previous="true"), 'previous terminated container "main" in pod "quiet" not found')


def test_other_refusals(kube: Kube) -> None:
    kube.create("quiet")
    becomes(kube, "quiet", lambda pod: pod.ready)
    refused(log(kube, "quiet", container="other"), "container other is not valid for pod quiet")
    refused(log(kube, "quiet", previous="true"), 'previous terminated container "main" in pod "quiet" not found')
    missing = log(kube, "nobody")
    assert (missing.status, missing.message) == (404, 'pods "nobody" not found')


def test_a_question_that_makes_no_sense_is_refused(kube: Kube, seen: Seen) -> None:
    kube.park("quiet")
    for query, words in {
        "tailLines=-1": "tailLines: Invalid value: -1: must be greater than or equal to 0",
        "limitBytes=0": "limitBytes: Invalid value: 0: must be greater than 0",
        "sinceSeconds=0": "sinceSeconds: Invalid value: 0: must be greater than 0",
    }.items():
        key, _, value = query.partition("=")
        answer = log(kube, "quiet", **{key: value})
        assert (answer.status, answer.reason) == (422, "Invalid"), query
        assert words in answer.message
    both = log(kube, "quiet", sinceSeconds=1, sinceTime="2026-01-01T00:00:00Z")
    assert (both.status, both.message) == (422, seen("log-since-twice", both.body)["message"])
    word = log(kube, "quiet", tailLines="x")
    assert (word.status, word.message) == (400, 'strconv.ParseInt: parsing "x": invalid syntax')


def test_a_pod_without_a_node_has_no_log(kube: Kube) -> None:
    kube.park("parked")
    assert log(kube, "parked") == Answer(204, {"message": ""})


def refused(answer: Answer, words: str) -> None:
    assert (answer.status, answer.reason, answer.message) == (400, "BadRequest", words)

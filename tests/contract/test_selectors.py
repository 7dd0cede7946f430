"""Which objects a list or watch is about."""

from __future__ import annotations

import pytest

from tests.contract.kube import Kube

LABELS = {"one": {"app": "a"}, "two": {"app": "b", "tier": "x"}, "three": {}}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=a", ["one"]),
        ("app==a", ["one"]),
        ("app!=a", ["three", "two"]),
        ("app in (a, b)", ["one", "two"]),
        ("app notin (a)", ["three", "two"]),
        ("app", ["one", "two"]),
        ("!app", ["three"]),
        ("app,tier notin (x)", ["one"]),
        ("app in (a,b),tier=x", ["two"]),
        ("nothing=here", []),
    ],
)
def test_a_label_selector_says_which(kube: Kube, selector: str, expected: list[str]) -> None:
    for name, labels in LABELS.items():
        kube.park(name, metadata={"labels": labels})
    assert kube.names(labelSelector=selector) == expected

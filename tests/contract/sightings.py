"""What was seen on the real cluster, kept as JSON: `CONTRACT_SEEN=1 CONTRACT_ON=kubernetes` writes the files anew."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.contract.kube import Json, Kube

FOLDER = Path(__file__).with_name("seen")
WRITES = os.environ.get("CONTRACT_SEEN") == "1"
METADATA = ("name", "labels", "annotations", "finalizers", "deletionGracePeriodSeconds", "deletionTimestamp")
SPEC = ("restartPolicy", "terminationGracePeriodSeconds", "nodeName")
REPLACED = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "00000000-0000-0000-0000-000000000000"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-01T00:00:00Z"),
    (r"\b[0-9a-f]{64}\b", "0" * 64),
    (r"127\.0\.0\.1:\d+", "registry.example:5000"),
    (r"(current: |precondition \(|record \()\d+\b(?!-)", r"\g<1>1"),
    (r"\b(?!0\.)\d{1,3}(\.\d{1,3}){3}\b", "192.0.2.1"),
)
"""Identities, times, digests and addresses, by others of the same form: what reads the real thing reads these."""


class Seen:
    """`seen(case, item)`: that item (a Pod, an event or a Status) as the real cluster showed it."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube

    def __call__(self, case: str, item: Json) -> Json:
        file = FOLDER / f"{case}.json"
        if WRITES and self.kube.judge.name == "kubernetes":
            kept = {"kubernetes": self.kube.judge.version, "seen": self.stable(item)}
            file.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
        found: Json = json.loads(file.read_text())["seen"]
        return found

    def stable(self, item: Json) -> Json:
        text = json.dumps(trimmed(item))
        for name, instead in ((self.kube.image, "contract:1"), (self.kube.other_image, "contract:2")):
            text = text.replace(name, instead)
        text = text.replace(self.kube.namespace, "contract")
        for pattern, instead in REPLACED:
            text = re.sub(pattern, instead, text)
        replaced: Json = json.loads(text)
        return replaced


def trimmed(item: Json) -> Json:
    """Pods without what nobody reads; statuses and events whole, but for what the server keeps for itself."""
    if "containers" not in item.get("spec", {}):
        return {name: value for name, value in item.items() if name not in ("metadata", "eventTime")}
    metadata, spec = item["metadata"], item["spec"]
    containers = [{"name": each["name"], "image": each["image"]} for each in spec["containers"]]
    return {
        "metadata": {name: metadata[name] for name in METADATA if name in metadata},
        "spec": {name: spec[name] for name in SPEC if name in spec} | {"containers": containers},
        "status": item["status"],
    }

"""What a create asks for, checked field by field. Pure: a wrong value is refused by name, never bent to fit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandboxes import times

from .answers import Refusal, invalid

PREFIXES = ("agentbox/", "agentbox.scitix.ai/")
"""Metadata keys with these are addressed to us."""
IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9_-]{1,255}")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}")
"""What may be the name of an image; whether there is such an image, the registry says."""
IMAGE_MARKS = set(":/@")
"""What tells `base//python:3.13`, an image, from `base//large`, a scaling group, whose name has none of these."""
LARGEST_TEXT = 65_536
MANY = 200
LONGEST_SECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Order:
    """`timeout` None = the env's default; `wait` = how long the claim may queue, in seconds; `image` "" = the env's."""

    template: str
    group: str
    timeout: int | None
    metadata: dict[str, str]
    env_vars: dict[str, str]
    wait: float
    image: str = ""


def parse_create(body: dict[str, Any]) -> Order:
    """Raises Refusal 400 naming the field. Unknown keys are accepted: newer SDKs send more."""
    for name, check in REFUSED.items():
        check(name, body.get(name))
    metadata = strings("metadata", body.get("metadata"))
    template, _, wish = text("templateID", body.get("templateID")).partition("//")
    if not template:
        raise invalid("templateID", "is required: the name of an env of your team, such as base.")
    group, image = ("", wish) if set(wish) & IMAGE_MARKS else (wish, "")
    group, image = group or addressed(metadata, "scaling-group"), image or addressed(metadata, "image")
    check_image(image)
    env_vars = strings("envVars", body.get("envVars"))
    check_env_names(env_vars)
    timeout, wait = seconds("timeout", body.get("timeout")), wait_of(metadata)
    return Order(template, group, timeout, metadata, env_vars, wait, image)


def addressed(metadata: dict[str, str], name: str) -> str:
    return next((metadata[prefix + name] for prefix in PREFIXES if prefix + name in metadata), "")


def check_image(image: str) -> None:
    if image and not IMAGE.fullmatch(image):
        raise invalid("image", f"must be the name of an image such as python:3.13-slim, not {image[:80]!r}.")


def wait_of(metadata: dict[str, str]) -> float:
    """How long the caller lets its claim wait: `startup-timeout` in seconds, else within the SDK's own patience."""
    value = addressed(metadata, "startup-timeout") or metadata.get("startup-timeout", "")
    if not value:
        return times.CLAIM_DEADLINE
    limit = int(times.MAX_STARTUP_TIMEOUT)
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= limit):
        raise invalid("metadata.startup-timeout", f"must be whole seconds from 1 to {limit}, not {value[:40]!r}.")
    return float(value)


def seconds(name: str, value: Any, *, least: int = 1) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name, f"must be a whole number of seconds, not {json.dumps(value)[:40]}.")
    if not least <= value <= LONGEST_SECONDS:
        raise invalid(name, f"must be at least {least} and at most {LONGEST_SECONDS} seconds, not {str(value)[:40]}.")
    return value


def text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 255 or "\0" in value:
        raise invalid(name, "must be a string of at most 255 characters.")
    return value


def strings(name: str, value: Any) -> dict[str, str]:
    """An object of strings, such as metadata and envVars."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise invalid(name, "must be an object whose values are strings.")
    if len(value) > MANY or sum(len(key) + len(item) for key, item in value.items()) > LARGEST_TEXT:
        raise invalid(name, f"has more than {MANY} entries or {LARGEST_TEXT} characters.")
    for key, item in value.items():
        check_storable(name, key + item)
    return value


def check_storable(name: str, item: str) -> None:
    """PostgreSQL stores neither NUL nor half of a surrogate pair, and an environment takes no NUL either."""
    if "\0" in item or (not item.isascii() and any("\ud800" <= letter <= "\udfff" for letter in item)):
        raise invalid(name, "must not contain NUL characters or lone surrogates.")


def check_env_names(env_vars: dict[str, str]) -> None:
    for key in env_vars:
        if not key or "=" in key:
            raise invalid("envVars", f"{key!r} cannot be the name of an environment variable.")


def refuse_if_set(reason: str) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if value:
            raise invalid(name, f"is not supported: {reason}")

    return check


def check_auto_resume(name: str, value: Any) -> None:
    if value and (not isinstance(value, dict) or value.get("enabled", True)):
        raise invalid(name, "is not supported: sandboxes cannot be paused and resumed. Leave it out.")


def check_internet(name: str, value: Any) -> None:
    if value is False:
        raise invalid(name, "false is not supported: ask your operator for a network policy of the env.")


def check_network(name: str, value: Any) -> None:
    """Public traffic is what there is; every other rule would be a promise that we cannot keep."""
    if not value:
        return
    if not isinstance(value, dict):
        raise invalid(name, "must be an object.")
    for rule, setting in value.items():
        if setting in (None, [], {}, "") or (rule == "allowPublicTraffic" and setting is True):
            continue
        raise invalid(f"{name}.{rule}", "is not supported: rules for one sandbox's network. Leave it out.")


def check_iam(name: str, value: Any) -> None:
    if value and (not isinstance(value, dict) or any(value.values())):
        raise invalid(name, "is not supported: workload tokens. Leave it out.")


REFUSED: dict[str, Callable[[str, Any], None]] = {
    "autoPause": refuse_if_set("a sandbox cannot be paused, it ends at its timeout. Leave it out, or raise timeout."),
    "autoResume": check_auto_resume,
    "mcp": refuse_if_set("MCP servers. Start the server in the sandbox yourself."),
    "volumeMounts": refuse_if_set("volumes. Put the files into the env's image, or write them after create."),
    "allow_internet_access": check_internet,
    "network": check_network,
    "iam": check_iam,
}


def parse_idempotency_key(value: str | None) -> str | None:
    if value is None:
        return None
    if not IDEMPOTENCY_KEY.fullmatch(value):
        raise Refusal(400, "Idempotency-Key: must be 1 to 255 letters, digits, dashes or underscores.")
    return value


def digest(body: dict[str, Any]) -> str:
    """The same for the same JSON, however it was written."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

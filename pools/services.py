"""The verbs of people's intent: rows and audit in one transaction, the wake after commit. Faces call these only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from celery import current_app
from django.db import transaction

from . import keys, pod_template
from .errors import Conflict, Invalid, InvalidDocument
from .models import ApiKey, AuditEntry, Env, Role, ScalingGroup, Team, User

EDITABLE = ("min_replicas", "max_replicas", "min_idle")
LARGEST = 100_000
WAKE_EXPIRES = 10.0


def audit(team: Team, actor: str, verb: str, target: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    AuditEntry.objects.create(team=team, actor=actor, verb=verb, target=target, before=before, after=after)


@transaction.atomic
def create_api_key(*, team: Team, name: str, actor: User | None, role: str = Role.OPERATOR) -> tuple[ApiKey, str]:
    """A new key and its secret, which is never shown again."""
    if not name.strip():
        raise Invalid("Give the key a name, such as the run or machine that uses it.", field="name")
    secret = keys.new_api_key()
    key = ApiKey.objects.create(
        team=team, name=name.strip(), digest=keys.key_digest(secret), hint=secret[:8], role=role, created_by=actor
    )
    audit(team, str(actor or "system"), "apikey.create", f"key {key.hint}", {}, {"name": key.name, "role": role})
    return key, secret


@transaction.atomic
def revoke_api_key(*, key: ApiKey, actor: User) -> None:
    """From now on the key opens nothing; revoking twice is fine."""
    if key.revoked_at:
        return
    key.revoked_at = datetime.now(UTC)
    key.save(update_fields=["revoked_at"])
    audit(key.team, str(actor), "apikey.revoke", f"key {key.hint}", {"name": key.name}, {})


@transaction.atomic
def edit_group(
    *, group: ScalingGroup, actor: str, generation: int, min_replicas: int, max_replicas: int, min_idle: int
) -> ScalingGroup:
    """Set a group's bounds as a whole. Conflict if somebody edited since `generation`; Invalid names the field."""
    fresh = ScalingGroup.objects.select_for_update(of=("self",)).select_related("env__team").get(pk=group.pk)
    if fresh.generation != generation:
        text = (
            f"Somebody changed {fresh} meanwhile (revision {fresh.generation}, yours is {generation}); load it again."
        )
        raise Conflict(text, field="generation")
    wanted = {"min_replicas": min_replicas, "max_replicas": max_replicas, "min_idle": min_idle}
    check_bounds(**wanted)
    before = {name: getattr(fresh, name) for name in EDITABLE}
    if before == wanted:
        return fresh
    for name, value in wanted.items():
        setattr(fresh, name, value)
    fresh.generation += 1
    fresh.updated_at = fresh.due_at = datetime.now(UTC)
    fresh.save(update_fields=[*EDITABLE, "generation", "updated_at", "due_at"])
    audit(fresh.env.team, actor, "autoscaling.update", f"group {fresh}", before, wanted)
    transaction.on_commit(lambda: wake_group(fresh.pk), robust=True)
    return fresh


@transaction.atomic
def edit_env(*, env: Env, actor: str, generation: int, template: dict[str, Any]) -> Env:
    """Set what the env's Pods get besides; sandboxes that exist keep theirs. Conflict and InvalidDocument as above."""
    fresh = Env.objects.select_for_update(of=("self",)).select_related("team").get(pk=env.pk)
    if fresh.generation != generation:
        text = (
            f"Somebody changed {fresh} meanwhile (revision {fresh.generation}, yours is {generation}); load it again."
        )
        raise Conflict(text, field="generation")
    if problems := pod_template.problems(template, fresh.team.name):
        raise InvalidDocument(problems)
    if fresh.pod_template == template:
        return fresh
    before, fresh.pod_template = fresh.pod_template, template
    fresh.generation += 1
    fresh.save(update_fields=["pod_template", "generation"])
    audit(fresh.team, actor, "env.update", f"env {fresh}", {"pod_template": before}, {"pod_template": template})
    return fresh


def check_bounds(*, min_replicas: int, max_replicas: int, min_idle: int) -> None:
    named = (("min_replicas", "The floor", min_replicas), ("min_idle", "The idle count", min_idle))
    if not 0 <= max_replicas <= LARGEST:
        raise Invalid(f"The ceiling must be between 0 and {LARGEST}; set it to the run's peak.", field="max_replicas")
    for field, name, value in named:
        if value < 0:
            raise Invalid(f"{name} cannot be negative.", field=field)
        if value > max_replicas:
            text = f"{name} ({value}) is above the ceiling ({max_replicas}); lower it or raise the ceiling."
            raise Invalid(text, field=field)


def wake_group(group_id: int) -> None:
    """Tell the planner by task name: `pools` imports nothing from above (design, section 3)."""
    current_app.send_task("sandboxes.plan_group", args=[group_id], expires=WAKE_EXPIRES, retry=False)

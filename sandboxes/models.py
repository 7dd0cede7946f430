"""What is: sandboxes, claims, decisions, events and heartbeats.

State columns are written by `sandboxes.transitions` only. `sandboxes_sandbox`, `sandboxes_event` and
`sandboxes_decision` are range-partitioned by time (see migration 0001 and `sandboxes.partitions`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.models import Cluster, Pool, ScalingGroup, Team

from .lifecycle import LIVE, ClaimState, EndReason, State, shown_group

LIVE_SHELF = datetime(9999, 12, 31, tzinfo=UTC)
"""The partition key of every sandbox that has not been put on the shelf of its end's day."""


def choices(enum: type[State] | type[ClaimState] | type[EndReason]) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in enum]


class SandboxQuerySet(models.QuerySet["Sandbox"]):
    def live(self) -> SandboxQuerySet:
        return self.filter(state__in=[state.value for state in LIVE], shelf=LIVE_SHELF)


class Sandbox(models.Model):
    """One Pod over its life. The row exists before the Pod; the Pod is named `pod_name`."""

    id = models.CharField(primary_key=True, max_length=21)
    team = models.ForeignKey(Team, models.PROTECT, db_index=False, related_name="+")
    group = models.ForeignKey(ScalingGroup, models.PROTECT, db_index=False, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, db_index=False, related_name="+")
    cluster = models.ForeignKey(Cluster, models.PROTECT, db_index=False, related_name="+")
    state = models.CharField(max_length=8, choices=choices(State), default=State.PENDING, db_default="pending")
    rev = models.BigIntegerField(default=1, db_default=1)
    image = models.CharField(max_length=255)

    created_at = models.DateTimeField(db_default=Now())
    starting_at = models.DateTimeField(null=True)
    idle_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True, help_text="The deadline of a claimed sandbox.")
    end_reason = models.CharField(max_length=16, blank=True, default="", db_default="", choices=choices(EndReason))
    end_actor = models.CharField(max_length=80, blank=True, default="", db_default="")
    end_message = models.TextField(blank=True, default="", db_default="")
    shelf = models.DateTimeField(default=LIVE_SHELF, db_default=LIVE_SHELF)

    pod_uid = models.CharField(max_length=36, blank=True, default="", db_default="")
    pod_ip = models.CharField(max_length=45, blank=True, default="", db_default="")
    node = models.CharField(max_length=253, blank=True, default="", db_default="")
    retry_at = models.DateTimeField(null=True, help_text="When drain may try again after a refusal.")
    delete_at = models.DateTimeField(null=True, help_text="When drain deletes the Pod again.")
    failures = models.PositiveSmallIntegerField(default=0, db_default=0)
    finding = models.CharField(max_length=32, blank=True, default="", db_default="")
    finding_text = models.TextField(blank=True, default="", db_default="")
    finding_at = models.DateTimeField(null=True)

    claim_id = models.BigIntegerField(null=True)
    metadata = models.JSONField(default=dict, db_default={})

    objects = SandboxQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["id"], name="sandbox_by_id"),
            # One index for counting and for `bind`'s order: of two, stale statistics chose the one that sorts all idle.
            models.Index(
                fields=["group", "state", "idle_at", "id"], condition=~Q(state="ended"), name="sandbox_live_by_group"
            ),
            models.Index(
                fields=["cluster", "state", "created_at"],
                condition=Q(state__in=["pending", "stopping"]),
                name="sandbox_to_drain",
            ),
            models.Index(fields=["group", "ended_at"], condition=Q(state="ended", idle_at=None), name="sandbox_failed"),
            models.Index(fields=["end_at"], condition=Q(state="claimed"), name="sandbox_deadline"),
            models.Index(fields=["team", "-created_at", "-id"], name="sandbox_by_team"),
            models.Index(fields=["team", "-claimed_at", "-id"], condition=Q(state="claimed"), name="sandbox_running"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in State]), name="sandbox_state_known"),
            models.CheckConstraint(
                condition=~Q(state="claimed") | Q(claim_id__isnull=False, end_at__isnull=False),
                name="sandbox_claimed_has_claim_and_deadline",
            ),
            models.CheckConstraint(condition=~Q(state="ended") | ~Q(end_reason=""), name="sandbox_end_has_reason"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def pod_name(self) -> str:
        return pod_name(self.id)

    @property
    def shown_group(self) -> str:
        return shown_group(self.state, self.finding).value


def pod_name(sandbox_id: str) -> str:
    return f"sb-{sandbox_id}"


class Claim(models.Model):
    """A request for a sandbox. The id is its place in the group's queue."""

    team = models.ForeignKey(Team, models.CASCADE, db_index=False, related_name="+")
    group = models.ForeignKey(ScalingGroup, models.CASCADE, db_index=False, related_name="+")
    state = models.CharField(max_length=9, choices=choices(ClaimState), default=ClaimState.QUEUED, db_default="queued")
    edge = models.CharField(max_length=40, help_text="The heartbeat of the edge process whose caller waits.")
    timeout = models.PositiveIntegerField(help_text="Seconds of life from delivery.")
    metadata = models.JSONField(default=dict, db_default={})
    idempotency_key = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null, not "", keeps the index unique
    request_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    sandbox_id = models.CharField(max_length=21, null=True)  # noqa: DJ001 - likewise
    created_at = models.DateTimeField(db_default=Now())
    deadline_at = models.DateTimeField()
    bound_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True, default="", db_default="")

    class Meta:
        indexes = [
            models.Index(fields=["group", "id"], condition=Q(state="queued"), name="claim_queue"),
            models.Index(fields=["edge"], condition=Q(state__in=["queued", "bound"]), name="claim_open_by_edge"),
            models.Index(fields=["group", "-created_at"], name="claim_by_group"),
            models.Index(fields=["team", "-bound_at"], name="claim_wait"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["sandbox_id"], name="a_sandbox_serves_one_claim"),
            models.UniqueConstraint(
                fields=["team", "idempotency_key"],
                condition=Q(state__in=["queued", "bound", "delivered"]),
                name="one_claim_per_idempotency_key",
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in ClaimState]), name="claim_state_known"),
            models.CheckConstraint(
                condition=~Q(state__in=["bound", "delivered"]) | Q(sandbox_id__isnull=False),
                name="claim_bound_has_sandbox",
            ),
        ]

    def __str__(self) -> str:
        return f"claim {self.pk}"


class Event(models.Model):
    """Something in a sandbox's life that is not the normal course. Partitioned by `at`."""

    at = models.DateTimeField(db_default=Now())
    team = models.ForeignKey(Team, models.CASCADE, db_index=False, related_name="+", db_constraint=False)
    sandbox_id = models.CharField(max_length=21)
    kind = models.CharField(max_length=32)
    text = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["sandbox_id", "-at"], name="event_by_sandbox")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Decision(models.Model):
    """One stored autoscaler step: inputs, change, what bound it, and the sentence shown. Partitioned by `at`."""

    at = models.DateTimeField(db_default=Now())
    group = models.ForeignKey(ScalingGroup, models.CASCADE, db_index=False, related_name="+", db_constraint=False)
    generation = models.PositiveIntegerField()
    want = models.IntegerField()
    change = models.IntegerField()
    binding = models.CharField(max_length=16)
    sentence = models.TextField()
    inputs = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["group", "-at"], name="decision_by_group")]

    def __str__(self) -> str:
        return self.sentence


class Heartbeat(models.Model):
    """When a process last did its work; health is judged by this, never by a process list."""

    name = models.CharField(primary_key=True, max_length=40)
    at = models.DateTimeField()
    detail = models.JSONField(default=dict, db_default={})

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"

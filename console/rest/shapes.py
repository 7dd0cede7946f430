"""What the REST API says and takes: AgentBox's resource and field names (peers.md 1.2 and 1.5), in camelCase."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from console.sandboxes.listing import PAGE

LARGEST = 1_000_000


class TeamRole(s.Serializer[Any]):
    name = s.CharField()
    role = s.CharField()


class Whoami(s.Serializer[Any]):
    mode = s.ChoiceField(["key", "session"])
    user = s.CharField(help_text="The person's name, or the key's.")
    team = s.CharField(allow_null=True, help_text="The team that calls without `team` are about.")
    role = s.CharField(allow_null=True)
    teams = TeamRole(many=True)


class Totals(s.Serializer[Any]):
    """Sandboxes of a pool, group or env now."""

    idleReplicas = s.IntegerField(source="counts.idle", help_text="Ready and claimable.")
    runningReplicas = s.IntegerField(source="counts.claimed")
    startingReplicas = s.IntegerField(source="counts.starting")
    stuckReplicas = s.IntegerField(source="counts.stuck")
    stoppingReplicas = s.IntegerField(source="counts.stopping")
    desiredReplicas = s.IntegerField(source="want")
    pendingRequests = s.IntegerField(source="queued", help_text="Claims in the queue.")


class PoolShape(Totals):
    id = s.IntegerField()
    name = s.CharField()
    cluster = s.CharField()
    minReplicas = s.IntegerField(source="floor")
    maxReplicas = s.IntegerField(source="ceiling")
    minIdle = s.IntegerField(source="min_idle")
    binding = s.CharField(allow_null=True, help_text="What bound the newest decision.")
    sentence = s.CharField(allow_null=True)


class Whole(s.Serializer[Any]):
    """The document that PUT takes, as a whole."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            way_out = f"Send exactly {', '.join(self.fields)}: the `editable` block of GET."
            raise s.ValidationError({unknown[0]: f"There is no field {unknown[0]!r}. {way_out}"})
        return super().to_internal_value(data)


class EnvEditable(Whole):
    podTemplate = s.JSONField(
        source="pod_template", help_text="What the env's Pods get besides; see docs/operators.md."
    )


class EnvShape(Totals):
    name = s.CharField(source="env.name")
    image = s.CharField(source="env.image")
    docs = s.CharField(source="env.docs")
    defaultTimeout = s.IntegerField(source="env.default_timeout")
    maxTimeout = s.IntegerField(source="env.max_timeout")
    scalingGroups = s.ListField(child=s.CharField(), source="group_names")
    generation = s.IntegerField(source="env.generation", help_text="Also the ETag.")
    editable = EnvEditable(source="env")


class Editable(Whole):
    minReplicas = s.IntegerField(source="min_replicas", min_value=0, max_value=LARGEST)
    maxReplicas = s.IntegerField(source="max_replicas", min_value=0, max_value=LARGEST)
    minIdle = s.IntegerField(source="min_idle", min_value=0, max_value=LARGEST)


class GroupShape(Totals):
    name = s.CharField(source="group.name")
    env = s.CharField(source="group.env.name")
    instanceType = s.CharField(source="group.instance_type.name")
    generation = s.IntegerField(source="group.generation", help_text="Also the ETag.")
    updatedAt = s.DateTimeField(source="group.updated_at")
    editable = Editable(source="group")


class SandboxShape(s.Serializer[Any]):
    id = s.CharField()
    state = s.CharField()
    group = s.CharField(source="shown_group", help_text="ready, working, stuck or ended.")
    pool = s.CharField(source="pool.name")
    poolId = s.IntegerField(source="pool_id")
    cluster = s.CharField(source="cluster.name")
    node = s.CharField()
    image = s.CharField()
    metadata = s.JSONField()
    createdAt = s.DateTimeField(source="created_at")
    idleAt = s.DateTimeField(source="idle_at")
    claimedAt = s.DateTimeField(source="claimed_at")
    endAt = s.DateTimeField(source="end_at", help_text="The deadline.")
    endedAt = s.DateTimeField(source="ended_at")
    endReason = s.CharField(source="end_reason")
    endActor = s.CharField(source="end_actor")
    finding = s.CharField()
    findingText = s.CharField(source="finding_text")


class SandboxPage(s.Serializer[Any]):
    items = SandboxShape(many=True)
    next = s.CharField(allow_null=True, help_text="Send it as `after` for the next page.")


class SandboxQuery(s.Serializer[Any]):
    state = s.CharField(required=False, help_text="live (default), claimed, idle, starting, stuck, stopping or ended.")
    pool = s.IntegerField(required=False, min_value=1)
    text = s.CharField(required=False, help_text="An id or its beginning, a node, or key=value of the metadata.")
    after = s.CharField(required=False)
    limit = s.IntegerField(required=False, min_value=1, max_value=1000, default=PAGE)
    team = s.CharField(required=False, help_text="For people in more than one team.")


class Resource(s.Serializer[Any]):
    total = s.IntegerField(allow_null=True)
    used = s.IntegerField()
    free = s.IntegerField(allow_null=True)


class QuotaShape(s.Serializer[Any]):
    team = s.CharField()
    resources = s.DictField(child=Resource())


class Problem(s.Serializer[Any]):
    type = s.CharField()
    title = s.CharField()
    status = s.IntegerField()
    code = s.CharField()
    detail = s.CharField()
    field = s.CharField(required=False)
    errors = s.ListField(  # type: ignore[assignment]  # a field of that name, not the property
        child=s.DictField(child=s.CharField()), required=False, help_text="Each wrong field."
    )

"""What we want: teams with their keys and quotas, clusters, and the envs, scaling groups and pools they ask for.

Rows here are written by `pools.services` (people's intent) and by `sandboxes` (the bookkeeping columns of leases,
wakes and rates); nothing else writes them.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

NAME = RegexValidator(
    r"^[a-z]([a-z0-9-]*[a-z0-9])?$", "Use lower-case letters, digits and dashes; start with a letter.", "name"
)


class User(AbstractUser):
    """A person who signs in. Rights come from memberships; superusers see every team."""


class Team(models.Model):
    name = models.CharField(max_length=24, unique=True, validators=[NAME])
    created_at = models.DateTimeField(db_default=Now())
    members = models.ManyToManyField(User, through="Membership", related_name="teams")

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Membership(models.Model):
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role, default=Role.VIEWER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "team"], name="one_membership_per_user_and_team"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class ApiKey(models.Model):
    """A trainer's key: `e2b_` and 40 hex digits, shown once; only its SHA-256 is kept."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=60)
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=12)
    role = models.CharField(max_length=8, choices=Role, default=Role.OPERATOR)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.hint}… {self.name}"


class Quota(models.Model):
    """The ceiling no pool setting fixes. Its row is locked while sandboxes are inserted: groups cannot overshoot it."""

    team = models.OneToOneField(Team, models.CASCADE, primary_key=True, related_name="quota")
    max_sandboxes = models.PositiveIntegerField(help_text="Live sandboxes of the team, stopping ones included.")

    def __str__(self) -> str:
        return f"{self.team}: {self.max_sandboxes} sandboxes"


class Lease(models.Model):
    """Columns by which one worker at a time serves a row; `lease_fence` grows with each taking (sandboxes.leases)."""

    due_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    lease_backend = models.IntegerField(null=True, blank=True, editable=False)
    lease_fence = models.BigIntegerField(default=0, editable=False)
    last_pass_at = models.DateTimeField(null=True, blank=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    failure = models.TextField(blank=True, default="", editable=False)

    class Meta:
        abstract = True


class Cluster(Lease):
    """A Kubernetes cluster. `uid` is that of its kube-system namespace: a new one means another cluster."""

    name = models.CharField(max_length=24, unique=True, validators=[NAME])
    kubeconfig = models.CharField(max_length=400, blank=True, help_text="Path; empty = the process's own.")
    namespace = models.CharField(max_length=63, default="agentbox")
    uid = models.CharField(max_length=36, blank=True)
    cordoned = models.BooleanField(default=False)
    create_rate = models.FloatField(default=50, validators=[MinValueValidator(0.1)], help_text="Pod creates a second.")
    current_rate = models.FloatField(null=True, blank=True, editable=False)
    tokens = models.FloatField(default=0, editable=False)
    tokens_at = models.DateTimeField(db_default=Now(), editable=False)
    synced_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.name


class InstanceType(models.Model):
    """A shape of sandbox and its relative cost.

    A sandbox may use all of its CPU and memory, and reserves them on its node, or only the given part of them: then a
    node takes more sandboxes than could all be busy at once.
    """

    name = models.CharField(max_length=24, unique=True, validators=[RegexValidator(r"^[0-9a-z]+$")])
    cpu_millis = models.PositiveIntegerField(validators=[MinValueValidator(1)])
    memory_mib = models.PositiveIntegerField(validators=[MinValueValidator(16)])
    cpu_request_millis = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    memory_request_mib = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(16)])
    disk_mib = models.PositiveIntegerField(default=1024)
    cost = models.DecimalField(max_digits=8, decimal_places=2, default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="instance_type_reserves_no_more_than_it_has",
                condition=models.Q(
                    models.Q(cpu_request_millis=None) | models.Q(cpu_request_millis__lte=models.F("cpu_millis")),
                    models.Q(memory_request_mib=None) | models.Q(memory_request_mib__lte=models.F("memory_mib")),
                ),
                violation_error_message="A sandbox cannot reserve more than it may use.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Env(models.Model):
    """What E2B calls a template: image, defaults, docs. `generation` counts edits."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="envs")
    name = models.CharField(max_length=24, validators=[NAME])
    image = models.CharField(max_length=255)
    docs = models.TextField(blank=True)
    default_group = models.ForeignKey("ScalingGroup", models.SET_NULL, null=True, blank=True, related_name="+")
    default_timeout = models.PositiveIntegerField(default=300, help_text="Seconds of life if none are asked for.")
    max_timeout = models.PositiveIntegerField(default=86400, help_text="The longest life, in seconds from the claim.")
    pod_template = models.JSONField(
        default=dict, blank=True, help_text="What its Pods get besides (pools.pod_template)."
    )
    generation = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="one_env_per_team_and_name"),
            models.CheckConstraint(
                condition=Q(default_timeout__gte=1) & Q(default_timeout__lte=F("max_timeout")),
                name="env_timeouts_ordered",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ScalingGroup(Lease):
    """The pools of one shape of an env, and the bounds within which they follow demand. `generation` counts edits."""

    env = models.ForeignKey(Env, models.CASCADE, related_name="groups")
    instance_type = models.ForeignKey(InstanceType, models.PROTECT, related_name="+")
    name = models.CharField(max_length=24, validators=[NAME])
    min_replicas = models.PositiveIntegerField(default=0, help_text="Floor: sandboxes kept whatever the demand.")
    max_replicas = models.PositiveIntegerField(default=64, help_text="Ceiling: not a request, growth follows demand.")
    min_idle = models.PositiveIntegerField(default=0, help_text="Idle sandboxes kept claimable on top of demand.")
    max_starting = models.PositiveIntegerField(default=64, help_text="Outstanding creates at once.")
    generation = models.PositiveIntegerField(default=1, editable=False)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["env", "name"], name="one_group_per_env_and_name"),
            models.CheckConstraint(condition=Q(min_replicas__lte=F("max_replicas")), name="group_floor_within_ceiling"),
            models.CheckConstraint(condition=Q(min_idle__lte=F("max_replicas")), name="group_idle_within_ceiling"),
            models.CheckConstraint(condition=Q(max_starting__gte=1), name="group_may_start_one"),
        ]

    def __str__(self) -> str:
        return f"{self.env.name}-{self.name}"


class Pool(models.Model):
    """One shape of an env on one cluster, named {env}-{group}."""

    group = models.ForeignKey(ScalingGroup, models.CASCADE, related_name="pools")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="pools")
    name = models.CharField(max_length=60)
    priority = models.SmallIntegerField(default=0, help_text="Lower grows first.")
    cordoned = models.BooleanField(default=False, help_text="No new sandboxes.")
    node_selector = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "cluster"], name="one_pool_per_group_and_cluster")]

    def __str__(self) -> str:
        return self.name


class AuditEntry(models.Model):
    """What a person or key changed. Machine transitions are not audited; sandboxes keep their own events."""

    at = models.DateTimeField(db_default=Now())
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="audit")
    actor = models.CharField(max_length=80)
    verb = models.CharField(max_length=40)
    target = models.CharField(max_length=120)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["team", "-at"], name="audit_by_team")]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.target}"

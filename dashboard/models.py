"""Teams, the people and agents in them, their tokens, and the event log."""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from dashboard.database import clock
from dashboard.database.row_locks import LockingQuerySet
from dashboard.keys import redaction
from dashboard.logs import log_event
from dashboard.workers.wakes import wake_feeds
from handrail_verify.log import GENESIS, chain_hash


class Role(models.TextChoices):
    VIEWER = "viewer", gettext_lazy("Viewer")
    REVIEWER = "reviewer", gettext_lazy("Reviewer")
    LEAD = "lead", gettext_lazy("Lead")
    ADMIN = "admin", gettext_lazy("Admin")


class SecondFactorFor(models.TextChoices):
    """Whose sign-in a team wants a second factor or a passkey for."""

    NOBODY = "", gettext_lazy("Nobody")
    LEADS = "leads", gettext_lazy("Leads and admins")
    EVERYBODY = "everybody", gettext_lazy("Everybody")


class TeamQuerySet(LockingQuerySet):
    def visible_to(self, who):
        """Return the teams of a Caller (dashboard.people.access)."""
        return self.filter(pk__in=who.team_ids)


class Team(models.Model):
    """A group of people and agents with its own workspaces, snapshot store and event log."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=120)
    event_seq = models.BigIntegerField(default=0, editable=False)
    event_head = models.CharField(max_length=64, default=GENESIS, editable=False)
    stopped_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    # Whether the only person who can approve may approve critical actions alone (approvals/actions/solo.py).
    allows_solo = models.BooleanField(default=True)
    # Whether critical actions are approved only with a passkey, also by people who have none
    # yet (approvals/actions/step_up).
    requires_passkey = models.BooleanField(default=False)
    # Whether the owner of an agent may approve what it asks (approvals/actions/own_agents.py).
    owner_may_approve = models.BooleanField(default=True)
    # Where a workspace's ticket is: "https://tracker.example/{ticket}"; empty: tickets are shown without a link.
    ticket_url = models.CharField(max_length=300, blank=True)
    # Who has to sign in with a second factor (dashboard/people/second_factor_rule.py).
    second_factor_for = models.CharField(
        max_length=16, choices=SecondFactorFor, default=SecondFactorFor.NOBODY, blank=True
    )
    solo_closed_at = models.DateTimeField(null=True, blank=True, editable=False)  # since a second person could approve
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)  # since then it is only read
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    def __str__(self):
        return self.name


class MembershipQuerySet(LockingQuerySet):
    def in_force(self):
        """Leave out roles from groups that the identity provider has not confirmed for HANDRAIL_OIDC_ROLE_DAYS."""
        since = clock.now() - timedelta(days=settings.HANDRAIL_OIDC_ROLE_DAYS)
        return self.filter(Q(confirmed_at=None) | Q(confirmed_at__gt=since))


class Membership(models.Model):
    """A person's role in one team."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)
    # When this person last opened the Desk; "since I was here last" starts there.
    desk_seen_at = models.DateTimeField(null=True, blank=True)
    # Of a role from groups: when the identity provider last confirmed it. Null: a person gave the role.
    confirmed_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self):
        return f"{self.user} in {self.team}: {self.role}"


class AgentQuerySet(LockingQuerySet):
    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)


class Agent(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="agents")
    name = models.CharField(max_length=80)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="agents")
    paused_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = AgentQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="agent_name_once")]

    def __str__(self):
        return f"{self.owner}'s {self.name}" if self.owner else self.name


class TokenQuerySet(models.QuerySet):
    def live(self, now=None):
        """Return the tokens that are neither revoked nor expired, now by default."""
        return self.filter(revoked_at=None).filter(Q(expires_at=None) | Q(expires_at__gt=now or clock.now()))

    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)


class Token(models.Model):
    """A bearer token of an agent, or of a person in one team (dashboard.people.tokens); only its SHA-256 is stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="tokens")
    agent = models.ForeignKey(Agent, models.CASCADE, null=True, blank=True, related_name="tokens")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="handrail_tokens"
    )
    prefix = models.CharField(max_length=16, unique=True)
    sha256 = models.CharField(max_length=64, unique=True)
    for_run = models.BooleanField(default=False)  # created for the programs of a Run, and revoked with it
    workspace = models.ForeignKey(
        "workspaces.Workspace", models.CASCADE, null=True, blank=True, related_name="+", db_constraint=True
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects = TokenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(agent=None, user__isnull=False) | Q(agent__isnull=False, user=None), name="token_of_one"
            )
        ]

    def __str__(self):
        return f"{self.prefix}… of {self.agent or self.user}"


class SignInLink(models.Model):
    """A one-time sign-in link for one person; opening it does not use it up, only the button on its page does."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="sign_in_links")
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return f"sign-in link of {self.user}"


@dataclass(frozen=True)
class Actor:
    """The author of an event, copied into the log because names outlive rows."""

    type: str  # person, agent, system
    id: str
    label: str
    approval: str = ""  # id of the approved action being carried out; never in the log
    approved_by: str = ""  # for an agent's actor: the people who approved the action, or "policy 3"

    @property
    def as_json(self) -> dict:
        """Return the actor as JSON for other rows; `Actor(**…)` reads it back."""
        told = {"type": self.type, "id": self.id, "label": self.label}
        return told | ({"approved_by": self.approved_by} if self.approved_by else {})

    @classmethod
    def person(cls, user):
        return cls("person", str(user.pk), user.get_username())

    @classmethod
    def agent(cls, agent):
        return cls("agent", str(agent.pk), str(agent))

    @classmethod
    def system(cls, label):
        return cls("system", label, label)


class BackupPlan(models.Model):
    """When the installation is backed up by itself, and how the last time went. There is at most one row."""

    active = models.BooleanField(default=True, help_text="Off: no backup is made, and none is missed.")
    hour = models.PositiveSmallIntegerField(
        default=2, validators=[MaxValueValidator(23)], help_text="Hour of the day (UTC) from which it is made."
    )
    keep = models.PositiveSmallIntegerField(
        default=7, validators=[MinValueValidator(1)], help_text="Number of backups to keep; older ones are deleted."
    )
    begun_at = models.DateTimeField(null=True, blank=True, editable=False)
    made_at = models.DateTimeField(null=True, blank=True, editable=False)  # of the last good one
    problem = models.TextField(blank=True, editable=False)  # of the last one, in words; "" if it is good
    words = models.CharField(max_length=300, blank=True, editable=False)  # about the last good one
    late_at = models.DateTimeField(null=True, blank=True, editable=False)  # when it was last said that one is missing
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self):
        return "backup plan"


class IdentityProvider(models.Model):
    """The OpenID Connect provider that people sign in with; there is at most one row (dashboard/people/sso.py)."""

    name = models.CharField(max_length=60, help_text="On the sign-in page: Sign in with …")
    issuer = models.CharField(max_length=300, help_text="The address before /.well-known/openid-configuration.")
    client_id = models.CharField("client ID", max_length=300)
    value = models.BinaryField(null=True, blank=True)  # the client secret, encrypted
    scopes = models.CharField(max_length=300, default="openid profile email")
    groups_claim = models.CharField(
        max_length=120, default="groups", help_text="The claim with the groups; a dot leads into an object."
    )
    username_claim = models.CharField(max_length=120, default="preferred_username")
    second_factor_values = models.CharField(
        max_length=300, blank=True, help_text="Values of amr or acr that count as a second factor, such as mfa, otp."
    )
    session_hours = models.PositiveSmallIntegerField(
        default=12, validators=[MinValueValidator(1)], help_text="Hours until a person signs in again."
    )
    only = models.BooleanField("passwords and passkeys off", default=False)
    break_glass = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="The superuser whose password still signs in when passwords are off.",
    )
    active = models.BooleanField(default=True)

    def __str__(self):
        return self.name


class GroupRole(models.Model):
    """People in this group of the identity provider get the role in the team. The group * is everybody."""

    provider = models.ForeignKey(IdentityProvider, models.CASCADE, related_name="rules")
    group = models.CharField(max_length=200)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    role = models.CharField(max_length=16, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "group", "team"], name="group_role_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="group_role_known"),
        ]

    def __str__(self):
        return f"{self.group}: {self.role} in {self.team}"


class BannerQuerySet(models.QuerySet):
    def current(self):
        """Return the banner to show now, or None: of several the one that began last."""
        return self.filter(from_at__lte=Now(), until_at__gt=Now()).order_by("-from_at").first()


class Banner(models.Model):
    """A notice of maintenance, shown on every page and in a header of the API for a time."""

    text = models.CharField(max_length=300)
    from_at = models.DateTimeField("from")
    until_at = models.DateTimeField("until")

    objects = BannerQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(until_at__gt=F("from_at")), name="banner_ends_after_it_begins")
        ]

    def __str__(self):
        return self.text


class EventQuerySet(models.QuerySet):
    def visible_to(self, who):
        events = self.filter(team_id__in=who.team_ids)
        # An agent sees events of its own, and those about its actions.
        return events if who.is_person else events.filter(who.event_filter())

    def record(self, team, *, actor: Actor, verb: str, subject, workspace=None, data=None) -> "Event":
        """Append one event in the caller's transaction; `subject` is a model instance, `data` plain JSON."""
        return self.record_each(team, [(verb, actor, data)], subject=subject, workspace=workspace)[0]

    def record_each(self, team, entries: list[tuple], *, subject, workspace=None) -> list["Event"]:
        """Append an event about the subject for each (verb, actor, data), in their order, as `record` does."""
        team_id, at = getattr(team, "pk", team), clock.now()
        with transaction.atomic(using=self.db, savepoint=False):
            # The team's row is locked, so numbers have no gaps and the hash chain no forks. (SQLite has one writer.)
            seq, head = Team.objects.locked().values_list("event_seq", "event_head").get(pk=team_id)
            events = []
            for verb, actor, data in entries:
                seq += 1
                event = Event(
                    team_id=team_id,
                    seq=seq,
                    at=at,
                    actor_type=actor.type,
                    actor_id=actor.id,
                    actor_label=actor.label[:200],
                    verb=verb,
                    subject_type=subject._meta.model_name,
                    subject_id=str(subject.pk),
                    workspace_id=getattr(workspace, "pk", workspace),
                    data=redaction.clean(
                        (data or {}) | ({"approved_by": actor.approved_by} if actor.approved_by else {})
                    ),
                    prev=head,
                )
                head = event.hash = chain_hash(event.as_export())
                events.append(event)
            self.bulk_create(events)
            Team.objects.filter(pk=team_id).update(event_seq=seq, event_head=head)
            transaction.on_commit(wake_feeds, using=self.db)
        for event in events:
            log_event(event)
        return events

    @transaction.atomic
    def record_for_all(self, *, actor: Actor, verb: str, data=None):
        """Append an event about the whole installation to the log of each team."""
        for team in Team.objects.order_by("pk"):
            self.record(team, actor=actor, verb=verb, subject=team, data=data)


class Event(models.Model):
    """One row of the append-only log, which serves as audit trail, outbox and live feed."""

    id = models.BigAutoField(primary_key=True)
    team = models.ForeignKey(Team, models.PROTECT, related_name="events")
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    actor_type = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    actor_label = models.CharField(max_length=200)
    verb = models.CharField(max_length=64)
    subject_type = models.CharField(max_length=32)
    subject_id = models.CharField(max_length=64)
    workspace_id = models.UUIDField(null=True, blank=True)
    data = models.JSONField(default=dict)
    prev = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ["team", "seq"]
        constraints = [models.UniqueConstraint(fields=["team", "seq"], name="event_seq_once")]
        indexes = [
            models.Index(fields=["team", "subject_type", "subject_id", "seq"], name="event_by_subject"),
            models.Index(fields=["team", "workspace_id", "seq"], name="event_by_workspace"),
            models.Index(fields=["team", "at", "id"], name="event_by_time"),  # for the Log page
            models.Index(fields=["workspace_id", "verb", "at"], name="event_by_workspace_verb"),  # for timelines
            models.Index(fields=["team", "verb"], name="event_by_verb"),  # for its list of verbs
        ]

    def __str__(self):
        return f"{self.seq} {self.verb}"

    def as_export(self) -> dict:
        """Return the event as it is exported and hashed (see handrail_verify.log)."""
        exported = {
            "team": str(self.team_id),
            "seq": self.seq,
            "at": self.at.isoformat(timespec="milliseconds"),
            "actor": {"type": self.actor_type, "id": self.actor_id, "label": self.actor_label},
            "verb": self.verb,
            "subject": {"type": self.subject_type, "id": self.subject_id},
            "workspace": str(self.workspace_id) if self.workspace_id else None,
            "data": self.data,
            "prev": self.prev,
        }
        return exported | {"hash": self.hash} if self.hash else exported


class LogCheckpoint(models.Model):
    """A signed statement of the event that a team's log ended with (dashboard/event_log/checkpoints.py)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="log_checkpoints")
    seq = models.BigIntegerField()
    hash = models.CharField(max_length=64)
    at = models.DateTimeField()
    key = models.CharField(max_length=64)  # the public key that belongs to the signature, both in base64
    signature = models.CharField(max_length=128)
    # What an outside witness answered (RFC 3161, DER) in base64; "" where none was asked.
    timestamp = models.TextField(blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "seq"], name="log_checkpoint_once")]

    def __str__(self):
        return f"event {self.seq} of {self.team}"

"""Permissions: one matrix for pages, API and sockets. What a caller may not see is answered with 404, never 403."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from uuid import NAMESPACE_OID, UUID, uuid5

from django.db.models import Q

from dashboard.database import clock
from dashboard.models import Actor, Agent, Event, Membership, Role, SecondFactorFor, Token

# From the least to the most privileged: each role may do what those before it may.
ROLES = [Role.VIEWER, Role.REVIEWER, Role.LEAD, Role.ADMIN]

# verb: (minimum role of a person or None for no person, whether an agent may do it on what is its own)
MATRIX = {
    "read": (Role.VIEWER, True),
    "read_log": (Role.VIEWER, False),
    "export_log": (Role.LEAD, False),  # by a token; a person exports on the page of the log what it shows
    "submit": (None, True),  # submitting actions is what agents do
    "consume": (None, True),
    "register_instance": (None, True),  # of itself, over the Agent Approval Protocol
    "decide": (Role.REVIEWER, False),  # an agent never decides
    "take_back": (Role.REVIEWER, True),  # ask to undo outside what an action did there; that is approved by itself
    "settle_unclear": (Role.REVIEWER, False),
    "stop_everything": (Role.REVIEWER, False),
    "lift_stop": (Role.LEAD, False),
    "create_workspace": (Role.LEAD, True),
    "use_workspace": (Role.LEAD, True),  # resume, pause, stop, write files, run commands, snapshot, fork
    "describe_workspace": (Role.LEAD, True),  # its description, labels and ticket
    "propose_lesson": (Role.LEAD, True),  # for the notes of a repository; nobody is given it yet
    "decide_lesson": (Role.LEAD, False),  # accept it, decline it, or remove one that is in force
    "hand_over": (Role.LEAD, False),
    "assign_owner": (Role.LEAD, False),
    "set_ticket_url": (Role.LEAD, False),
    "move_workspace": (Role.LEAD, False),  # to another host, or under another environment
    "read_hosts": (Role.ADMIN, False),
    "manage_hosts": (None, False),  # superusers alone: a host has workspaces of all teams
    "type_in_terminal": (Role.LEAD, True),
    "share_terminal": (Role.LEAD, False),  # a person's, with agents
    "keep_artifact": (Role.LEAD, True),  # files of a snapshot, after it
    "delete_artifact": (Role.LEAD, False),
    "keep_checkpoint": (Role.LEAD, True),  # memory and files of a paused microVM
    "delete_checkpoint": (Role.LEAD, False),
    "restore": (Role.LEAD, True),
    "delete_workspace": (Role.LEAD, True),
    "allow_host": (Role.REVIEWER, True),  # for one workspace: reviewers may; an agent needs approval first
    "preview": (Role.REVIEWER, False),  # open a port of a workspace in a browser
    "keep_screenshot": (Role.REVIEWER, True),  # a picture of a page, with a snapshot
    "put_hook_back": (Role.REVIEWER, False),  # restores the gate of a connected folder
    "hold_calls": (Role.LEAD, False),  # in a connected folder: run the agent's shell calls in a box, or no longer
    "write_policy": (Role.LEAD, False),
    "manage_environments": (Role.LEAD, False),
    "read_definitions": (Role.VIEWER, False),  # of agents
    "write_definitions": (Role.LEAD, False),
    "start_agents": (Role.LEAD, False),  # and answer their runs
    "manage_schedules": (Role.LEAD, False),  # and answer their runs that ask for more minutes
    "manage_secrets": (Role.LEAD, False),  # and allow one in snapshots
    "manage_agents": (Role.LEAD, False),
    "manage_people": (Role.ADMIN, False),
    "delete_snapshot": (Role.LEAD, False),
    "hold": (Role.LEAD, False),  # keep something from being deleted, and release that
    "create_team": (None, False),  # superusers alone
    "manage_team": (Role.ADMIN, False),  # rename, archive, say who needs a second factor
    "manage_log_targets": (Role.ADMIN, False),
    "manage_tokens": (Role.ADMIN, False),  # those of agents and of people
    "manage_retention": (Role.ADMIN, False),
    "purge": (Role.ADMIN, False),  # search all that is kept for a value, and remove it
    "purge_person": (Role.ADMIN, False),  # in every team that the person is or was in
    "read_measures": (Role.VIEWER, False),
    "read_measures_of_people": (Role.LEAD, False),  # of others; anybody sees their own
    "scrape_metrics": (Role.LEAD, False),
    "lift_cap": (Role.LEAD, False),
    "plant_drills": (Role.ADMIN, False),
    "set_caps": (Role.ADMIN, False),  # and prices
}
# Refused to a token bound to one workspace, even if its agent may: it reaches no other workspace.
# Web sends requests to an instance's receiver, which would bypass the allowed hosts of a workspace.
NOT_FROM_A_WORKSPACE = {"create_workspace", "register_instance"}
# What may still be done in a team that is archived.
IN_AN_ARCHIVED_TEAM = {
    "read",
    "read_log",
    "export_log",
    "manage_people",
    "manage_team",
    "manage_tokens",
    "purge_person",
}


@dataclass(frozen=True)
class Caller:
    """A person (signed in, or by a token) or an agent, and the teams they act in."""

    roles: dict[UUID, str] = field(default_factory=dict)  # team id: role; an agent's role is "agent"
    user: object | None = None
    agent: Agent | None = None
    token: Token | None = None
    archived: frozenset[UUID] = frozenset()  # those of the teams that are archived
    is_closed: bool = False  # the verb that an agent asks for is closed to it (dashboard/door/): it may do nothing
    needs_second_factor: bool = False  # a team wants one from this person at sign-in

    @property
    def is_person(self) -> bool:
        return self.agent is None

    @property
    def team_ids(self) -> list[UUID]:
        return list(self.roles)

    @property
    def workspace_id(self) -> UUID | None:
        """Return the workspace that the token is bound to; None if it reaches all workspaces of its agent."""
        return self.token.workspace_id if self.token else None

    @property
    def actor(self) -> Actor:
        return Actor.person(self.user) if self.is_person else Actor.agent(self.agent)

    def only_in(self, team_id: UUID | None) -> "Caller":
        """Return the caller as a member of this team alone; unchanged if they are not in it."""
        return replace(self, roles={team_id: self.roles[team_id]}) if team_id in self.roles else self

    def can(self, verb: str, team) -> bool:
        """Return whether the caller may do `verb` in the team (a Team or its id). KeyError: an unknown verb."""
        least, agents_may = MATRIX[verb]
        team_id = getattr(team, "pk", team)
        role = self.roles.get(team_id)
        if role is None or self.is_closed or (team_id in self.archived and verb not in IN_AN_ARCHIVED_TEAM):
            return False
        if self.workspace_id and verb in NOT_FROM_A_WORKSPACE:
            return False
        if not self.is_person:
            return agents_may
        return least is not None and ROLES.index(role) >= ROLES.index(least)

    def workspace_filter(self) -> Q:
        """Return the filter of an agent's workspaces: those it created or is bound to; of them its token's alone."""
        # A subquery, so that the many-to-many join never duplicates a row.
        bound = Agent.bound_workspaces.rel.through.objects.filter(agent=self.agent.pk).values("workspace")
        own = Q(created_by_agent=self.agent.pk) | Q(pk__in=bound)
        return own & Q(pk=self.workspace_id) if self.workspace_id else own

    def event_filter(self) -> Q:
        """Return the filter of an agent's events: its own, and those about its actions (the newest 500).

        A token bound to a workspace sees only the events of that workspace.
        """
        asked = self.agent.actions.filter(self.action_filter()).values_list("pk", flat=True)
        own = Q(actor_type="agent", actor_id=str(self.agent.pk)) | Q(
            subject_type="action", subject_id__in=[str(pk) for pk in asked.order_by("-created_at")[:500]]
        )
        return own & Q(workspace_id=self.workspace_id) if self.workspace_id else own

    def action_filter(self) -> Q:
        """Return the filter of an agent's actions or grants, limited to the workspace its token is bound to."""
        own = Q(agent=self.agent.pk)
        return own & Q(workspace=self.workspace_id) if self.workspace_id else own


@dataclass(frozen=True)
class CallerSlots:
    """How many teams a caller has, and of which kind it is: all that the queries of what it may see differ in."""

    teams: int
    is_person: bool
    is_bound: bool  # to a workspace, by its token

    @classmethod
    def of(cls, caller: Caller) -> "CallerSlots":
        return cls(len(caller.roles), caller.is_person, caller.workspace_id is not None)

    @property
    def marks(self) -> dict[str, UUID]:
        """Return {name: what stands for the value in a prepared queryset}; a list of ids takes no Slot."""
        names = ["agent", "bound", *(f"team{at}" for at in range(self.teams))]
        return {name: uuid5(NAMESPACE_OID, name) for name in names}

    def caller(self) -> Caller:
        """Return a caller that has the marks for its values."""
        marks = self.marks
        agent = None if self.is_person else SimpleNamespace(pk=marks.pop("agent"))
        token = SimpleNamespace(workspace_id=marks["bound"]) if self.is_bound else None
        roles = {mark: "" for name, mark in marks.items() if name.startswith("team")}
        return Caller(roles, agent=agent, token=token)

    @staticmethod
    def values(caller: Caller) -> dict:
        """Return the values that the marks stand for."""
        teams = {f"team{at}": team for at, team in enumerate(caller.roles)}
        return teams | {"agent": caller.agent and caller.agent.pk, "bound": caller.workspace_id}


def caller_of(user) -> Caller:
    """Return the Caller of a signed-in person; anonymous and inactive users are in no team."""
    if not user.is_authenticated or not user.is_active:
        return Caller()
    found = (
        Membership.objects.in_force()
        .filter(user=user)
        .select_related("team")
        .only("team_id", "role", "team__archived_at", "team__second_factor_for")
    )
    roles = {one.team_id: one.role for one in found}
    archived = frozenset(one.team_id for one in found if one.team.archived_at)
    needs = any(_is_wanted(one.team.second_factor_for, one.role) for one in found if not one.team.archived_at)
    return Caller(roles=roles, user=user, archived=archived, needs_second_factor=needs)


def _is_wanted(second_factor_for: str, role: str) -> bool:
    if second_factor_for == SecondFactorFor.LEADS:
        return ROLES.index(role) >= ROLES.index(Role.LEAD)
    return second_factor_for == SecondFactorFor.EVERYBODY


def paused_words(token: Token) -> str:
    """Return what a paused agent is told: who paused it and that it should wait; "" if it is not paused."""
    if not token.agent_id or not token.agent.paused_at:
        return ""
    paused = Event.objects.filter(team=token.team_id, subject_type="agent", subject_id=str(token.agent_id))
    by = paused.filter(verb="agent.paused").order_by("-seq").values_list("actor_label", flat=True).first()
    since = clock.in_utc(token.agent.paused_at)
    who = f"Paused by {by}" if by else "Paused"
    return f"{who} at {since}. Your token is valid: wait until a person resumes you, and do nothing else meanwhile."


def caller_by_token(token: Token, inside: str = "") -> Caller | None:
    """Return the Caller of a live token: its agent, or its person with their current role in that team.

    `inside`: the id of the workspace that the request came from through handrail.internal
    (workspaces/egress/internal_api.py). From there only that workspace's own token is accepted, whatever other tokens
    its programs hold. None if the agent is paused, or the person is inactive or no longer in the team.
    """
    if inside and inside != str(token.workspace_id):
        return None
    archived = frozenset([token.team_id] if token.team.archived_at else [])
    if token.agent_id:
        if token.agent.paused_at:
            return None
        return Caller(roles={token.team_id: "agent"}, agent=token.agent, token=token, archived=archived)
    own = Membership.objects.in_force().filter(team=token.team_id, user=token.user_id)
    role = own.values_list("role", flat=True).first()
    if role is None or not token.user.is_active:
        return None
    return Caller(roles={token.team_id: role}, user=token.user, token=token, archived=archived)

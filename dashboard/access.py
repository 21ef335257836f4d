"""Permissions: one matrix for pages, API and sockets. What a caller may not see is answered with 404, never 403."""

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q

from dashboard.models import Actor, Agent, Membership, Role, Token

# From the least to the most privileged: each role may do what those before it may.
ROLES = [Role.VIEWER, Role.REVIEWER, Role.LEAD, Role.ADMIN]

# verb: (minimum role of a person or None for no person, whether an agent may do it on what is its own)
MATRIX = {
    "read": (Role.VIEWER, True),
    "read_log": (Role.VIEWER, False),
    "submit": (None, True),  # submitting actions is what agents do
    "consume": (None, True),
    "decide": (Role.REVIEWER, False),  # an agent never decides
    "settle_unclear": (Role.REVIEWER, False),
    "stop_everything": (Role.REVIEWER, False),
    "lift_stop": (Role.LEAD, False),
    "create_workspace": (Role.LEAD, True),
    "use_workspace": (Role.LEAD, True),  # resume, pause, stop, write files, run commands, snapshot, fork
    "type_in_terminal": (Role.LEAD, True),
    "restore": (Role.LEAD, True),
    "delete_workspace": (Role.LEAD, True),
    "allow_host": (Role.REVIEWER, True),  # for one workspace: reviewers may; an agent needs approval first
    "put_hook_back": (Role.REVIEWER, False),  # restores the gate of a connected folder
    "hold_calls": (Role.LEAD, False),  # in a connected folder: run the agent's shell calls in a box, or no longer
    "write_policy": (Role.LEAD, False),
    "manage_environments": (Role.LEAD, False),
    "manage_secrets": (Role.LEAD, False),  # and allow one in snapshots
    "manage_agents": (Role.LEAD, False),
    "manage_people": (Role.ADMIN, False),
    "manage_retention": (Role.ADMIN, False),
}
# Refused to a token bound to one workspace, even if its agent may: it reaches no other workspace.
NOT_FROM_A_WORKSPACE = {"create_workspace"}


@dataclass(frozen=True)
class Caller:
    """A person (signed in, or by a token) or an agent, and the teams they act in."""

    roles: dict[UUID, str] = field(default_factory=dict)  # team id: role; an agent's role is "agent"
    user: object | None = None
    agent: Agent | None = None
    token: Token | None = None

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

    def can(self, verb: str, team) -> bool:
        """Return whether the caller may do `verb` in the team (a Team or its id). KeyError: an unknown verb."""
        least, agents_may = MATRIX[verb]
        role = self.roles.get(getattr(team, "pk", team))
        if role is None:
            return False
        if self.workspace_id and verb in NOT_FROM_A_WORKSPACE:
            return False
        if not self.is_person:
            return agents_may
        return least is not None and ROLES.index(role) >= ROLES.index(least)

    def workspace_filter(self) -> Q:
        """Return the filter of an agent's workspaces: its token's, or those it created or was bound to."""
        if self.workspace_id:
            return Q(pk=self.workspace_id)
        # A subquery, so that the many-to-many join never duplicates a row.
        bound = self.agent.bound_workspaces.values("pk")
        return Q(created_by_agent=self.agent.pk) | Q(pk__in=bound)

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


def caller_of(user) -> Caller:
    """Return the Caller of a signed-in person; anonymous and inactive users are in no team."""
    if not user.is_authenticated or not user.is_active:
        return Caller()
    return Caller(roles=dict(Membership.objects.filter(user=user).values_list("team_id", "role")), user=user)


def caller_by_token(token: Token, inside: str = "") -> Caller | None:
    """Return the Caller of a live token: its agent, or its person with their current role in that team.

    `inside`: the id of the workspace that the request came from through handrail.internal
    (workspaces/egress/internal_api.py). From there only that workspace's own token is accepted, whatever other tokens
    its programs hold. None if the agent is paused, or the person is inactive or no longer in the team.
    """
    if inside and inside != str(token.workspace_id):
        return None
    if token.agent_id:
        return None if token.agent.paused_at else Caller(roles={token.team_id: "agent"}, agent=token.agent, token=token)
    role = Membership.objects.filter(team=token.team_id, user=token.user_id).values_list("role", flat=True).first()
    if role is None or not token.user.is_active:
        return None
    return Caller(roles={token.team_id: role}, user=token.user, token=token)

"""Who may do what: one matrix, used by pages, API and sockets alike. What a caller may not see is 404, never 403."""

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q

from dashboard.models import Actor, Agent, Membership, Role, Token

# In the order of what they may do: each role may do what those before it may.
ROLES = [Role.VIEWER, Role.REVIEWER, Role.LEAD, Role.ADMIN]

# verb: (the least role of a person, may an agent do it on what is its own)
MATRIX = {
    "read": (Role.VIEWER, True),
    "read_log": (Role.VIEWER, False),
    "submit": (None, True),  # asking is what agents do
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
    "allow_host": (Role.REVIEWER, True),  # for one workspace: whoever may decide may allow; an agent asks first
    "write_policy": (Role.LEAD, False),
    "manage_environments": (Role.LEAD, False),
    "manage_secrets": (Role.LEAD, False),  # and say that one may stay in a snapshot
    "manage_agents": (Role.LEAD, False),
    "manage_people": (Role.ADMIN, False),
    "manage_retention": (Role.ADMIN, False),
}


@dataclass(frozen=True)
class Caller:
    """A person (signed in, or by a token) or an agent, and the teams it acts in."""

    roles: dict[UUID, str] = field(default_factory=dict)  # team id: role; an agent has the role "agent"
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
    def actor(self) -> Actor:
        return Actor.person(self.user) if self.is_person else Actor.agent(self.agent)

    def can(self, verb: str, team) -> bool:
        """May this caller do `verb` in the team (a Team or its id)? An unknown verb is a programming error."""
        least, agents_may = MATRIX[verb]
        role = self.roles.get(getattr(team, "pk", team))
        if role is None:
            return False
        if not self.is_person:
            return agents_may
        return least is not None and ROLES.index(role) >= ROLES.index(least)

    def workspace_filter(self) -> Q:
        """For an agent: the one workspace its token names, else those it created or was bound to."""
        if self.token and self.token.workspace_id:
            return Q(pk=self.token.workspace_id)
        # A sub-query, so that the many-to-many never doubles a row.
        bound = self.agent.bound_workspaces.values("pk")
        return Q(created_by_agent=self.agent.pk) | Q(pk__in=bound)

    def event_filter(self) -> Q:
        """For an agent: what it did, and what happened to what it asked for or made."""
        asked = self.agent.actions.values_list("pk", flat=True)
        return Q(actor_type="agent", actor_id=str(self.agent.pk)) | Q(
            subject_type="action", subject_id__in=[str(pk) for pk in asked.order_by("-created_at")[:500]]
        )


def caller_of(user) -> Caller:
    """The signed-in person; somebody who is not signed in belongs to no team."""
    if not user.is_authenticated or not user.is_active:
        return Caller()
    return Caller(roles=dict(Membership.objects.filter(user=user).values_list("team_id", "role")), user=user)


def caller_by_token(token: Token, inside: str = "") -> Caller | None:
    """Who a live token speaks for: its agent, or its person with the role held in that team now.

    `inside`: the workspace that a request came from through handrail.internal (workspaces/egress/inside.py says so);
    from there only that workspace's own token speaks, whatever else its programs have got hold of.
    """
    if inside and inside != str(token.workspace_id):
        return None
    if token.agent_id:
        return None if token.agent.paused_at else Caller(roles={token.team_id: "agent"}, agent=token.agent, token=token)
    role = Membership.objects.filter(team=token.team_id, user=token.user_id).values_list("role", flat=True).first()
    if role is None or not token.user.is_active:
        return None
    return Caller(roles={token.team_id: role}, user=token.user, token=token)

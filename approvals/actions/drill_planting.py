"""Plant a drill: a call in the name of an agent that nobody can act as."""

from approvals.actions import submission
from approvals.actions.drills import KINDS
from approvals.evaluation.calls import GATE, Call
from approvals.models import Drill, Status
from dashboard.database import clock
from dashboard.models import Agent, Team, Token
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid


def plant(team: Team, kind: str, name: str, *, by) -> Drill:
    """Plant a drill in the name of an agent, which is added if there is none. Problem 409, 422.

    `by`: the person. Refused for an agent that has a token, and where the policy asks nobody about such a call.
    """
    if kind not in KINDS:
        raise invalid("There is no such kind of drill.", field="kind")
    wanted = name.strip()[:80]
    if not wanted:
        raise invalid("A drill needs the name of an agent.", field="agent")
    agent = Agent.objects.filter(team=team, name=wanted).first()
    if agent and Token.objects.filter(agent=agent).exists():
        raise conflict("An agent with a token could see its drill. Choose a name that no agent has.", field="agent")
    with Team.objects.turn(team.pk):
        agent = agent or Agent.objects.create(team=team, name=wanted, last_seen_at=clock.now())
        chosen = KINDS[kind]
        call = Call(tool=chosen.tool, arguments=chosen.arguments, mode=GATE)
        action, _ = submission.submit(call, caller=Caller(roles={team.pk: "agent"}, agent=agent))
        if action.status != Status.PENDING:
            raise conflict("The policy asks nobody about such a call, so nobody would see it.", field="kind")
        return Drill.objects.create(action=action, kind=kind, planted_by=by, planted_at=clock.now())

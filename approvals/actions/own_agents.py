"""A person's own agents: where the team says so, somebody else approves what they ask.

A question or a plan of an agent runs nothing, so its owner answers it all the same.
"""

from approvals.models import Action, Grant
from approvals.questions import own_questions
from dashboard.problems import Problem

CODE = "own_agent"  # of the Problem that refuses an approval


def needs_another(action: Action, user_id) -> bool:
    """Return whether somebody else than this person has to approve the action, as the agent that asked is theirs."""
    is_theirs = user_id is not None and action.agent.owner_id == user_id
    return is_theirs and not action.team.owner_may_approve and action.tool not in own_questions.TOOLS


def refuse(action: Action, caller):
    """Raise Problem 403 with the code own_agent if somebody else than the caller has to approve the action."""
    if needs_another(action, caller.user.pk):
        raise Problem(403, "This is your own agent's: somebody else approves it.", code=CODE)


def may_grant(grant: Grant) -> bool:
    """Return whether the person who gave the grant may approve what its agent asks. It has its agent and team."""
    return grant.team.owner_may_approve or grant.agent.owner_id != grant.by_id

"""Policies, decisions and agents; its agents' folders say what the envelope protects of each agent."""

from functools import partial

from approvals import agents
from workspaces.envelope import agents as protected_agents

protected_agents.hand_over(partial(agents.parts, "protected"))

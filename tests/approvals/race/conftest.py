"""Many at one instant, on a product of its own. HANDRAIL_TEST_RACES says how often (12)."""

import json
import os

import pytest

from tests.support.product import Product

RACES = int(os.environ.get("HANDRAIL_TEST_RACES", "12"))
REVIEWERS = 5
AGENTS = 6

MAKE_EVERYBODY = f"""
import json
from dashboard.people.provisioning import agent_of, person_in, team_by_slug, token_for
team = team_by_slug("race")
people = [person_in(team, f"reviewer-{{n}}", "lead") for n in range({REVIEWERS})]
agents = [agent_of(team, f"agent-{{n}}") for n in range({AGENTS})]
print(json.dumps({{
    "reviewers": [token_for(team, by="tests", user=user) for user in people],
    "agents": [token_for(team, by="tests", agent=agent) for agent in agents],
}}))
"""


@pytest.fixture(scope="package")
def crowded(tmp_path_factory):
    """A product with five reviewers and six agents: `.reviewers` and `.agents` are their tokens."""
    running = Product(tmp_path_factory.mktemp("race") / "home")
    running.start()
    tokens = json.loads(running.shell(MAKE_EVERYBODY))
    running.reviewers, running.agents = tokens["reviewers"], tokens["agents"]
    yield running
    running.clean_up()

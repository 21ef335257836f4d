"""A product whose kernel holds programs, with an agent and a lead of its team, and a workspace that is up."""

import pytest

from tests.support.desk import Desk
from tests.support.product import Product


@pytest.fixture(scope="session")
def held_product(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("door") / "home", HANDRAIL_HELD="1")
    product.start()
    yield product
    product.clean_up()


@pytest.fixture(scope="session")
def agent(held_product):
    return Desk(held_product, held_product.agent_token("door-agent"))


@pytest.fixture(scope="session")
def lead(held_product):
    return Desk(held_product, held_product.person_token("door-lead", "lead"))


@pytest.fixture
def place(agent, lead):
    """The key of a workspace with a secret file, a git repository and a hook; it is paused after the test."""
    key = agent.create()["key"]
    lead.run(key, "git init -q . && echo KEY=canary > .env && mkdir sub && echo x > sub/plain")
    return key

"""An agent from a phone: set up by the guide without a shell, tried, and then started in three taps from the Desk.

The program is the real one, brought by npm; its provider is a scripted model.
"""

import os
import re

import pytest
from playwright.sync_api import expect

from approvals.connect.proof.model import Model, say
from tests.support.product import Product

from .conftest import TEAM, settle

pytestmark = pytest.mark.timeout(900)
KEY = "sk-ant-0123456789-of-the-stand-in"
WORD = "[three taps]"


@pytest.fixture(scope="session")
def real_agents(require):
    if not os.environ.get("HANDRAIL_TEST_AGENTS"):
        require("agents", "HANDRAIL_TEST_AGENTS names no folder; `deploy/agents.sh` makes one and prints it")


@pytest.fixture(scope="module")
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def product(real_agents, model, tmp_path_factory):
    made = Product(tmp_path_factory.mktemp("three-taps") / "home", HANDRAIL_MODEL_UPSTREAMS=f"anthropic={model.url}")
    made.start()
    yield made
    made.clean_up()


@pytest.fixture(scope="module")
def signed_in():
    """Of this product, which has people of its own."""
    return {}


@pytest.fixture
def size():
    return "phone"


def no_wider_than_the_phone(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def step(page, name: str):
    return page.locator(f"#step-{name}")


def test_a_lead_sets_an_agent_up_and_starts_it_in_three_taps(product, model, person):
    model.scripts[WORD] = [[say("All is well.")]]
    page = person("lena", "lead")
    page.get_by_role("link", name="Start an agent").click()
    page.get_by_role("link", name="Set up an agent").click()
    page.get_by_role("link", name="Claude Code").click()
    no_wider_than_the_phone(page)
    page.get_by_role("button", name=re.compile("Install Claude Code")).click()
    expect(step(page, "program")).to_contain_text("is installed on the host", timeout=180_000)
    settle(page)

    page.get_by_role("textbox", name="Key").fill(KEY)
    page.get_by_role("button", name="Keep the key").click()
    expect(step(page, "key")).to_contain_text("kept as the secret ANTHROPIC_API_KEY")
    assert KEY not in page.content()
    page.get_by_role("button", name="Try the key").click()
    expect(page.get_by_text("Anthropic answered: the key works")).to_be_visible()
    assert KEY in model.keys

    page.get_by_role("button", name="Save the environment").click()
    expect(step(page, "environment")).to_contain_text("agents")
    page.get_by_role("button", name="Try it").click()
    expect(step(page, "trial")).to_contain_text("the gate heard its calls", timeout=180_000)
    no_wider_than_the_phone(page)

    taps = 0
    page.goto(f"{product.desk}/")
    page.get_by_role("link", name="Start an agent").click()
    taps += 1
    no_wider_than_the_phone(page)
    task = page.get_by_label("Task")
    expect(task).to_be_focused()  # no tap to type
    page.keyboard.type(f"{WORD} Say how it is.")
    page.get_by_role("button", name="Start", exact=True).click()
    taps += 1
    expect(page.locator("h1")).to_contain_text("Say how it is.")
    expect(page.get_by_text("All is well.").first).to_be_visible(timeout=180_000)
    assert taps <= 3
    no_wider_than_the_phone(page)
    assert TEAM in product.shell(
        "from approvals.models import AgentRun; print(AgentRun.objects.work().get().team.slug)"
    )

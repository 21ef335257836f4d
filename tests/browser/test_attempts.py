"""Two attempts at a task on a page: a file is taken from one into the other, and the other is thrown away."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.desk import Desk
from tests.support.waiting import until

from .conftest import TEAM

pytestmark = pytest.mark.timeout(900)
LATER_MS = 120_000  # a workspace moves to the trash and back


@pytest.fixture
def lead(product):
    return Desk(product, product.person_token("lena", "lead", TEAM))


@pytest.fixture
def task(product, lead, workspace):
    """A task whose two attempts, by hand, wrote a file each; (task, keys of the workspaces)."""
    wish = {"title": "Round the till", "repository": str(product.sources / "shop"), "attempts": [{}, {}]}
    made = lead.post("/tasks", wish).json
    keys = [each["workspace"] for each in made["attempts"]]
    for key, name in zip(keys, ("till.py", "receipt.py"), strict=True):
        lead.settled(key)
        lead.run(key, f"echo 'of {key}' > {name}")
    return made, keys


def test_a_file_is_taken_from_one_attempt_and_the_other_thrown_away(product, lead, task, person):
    made, (one, two) = task
    page = person("lena", "lead")
    here = product.desk + made["url"]
    page.goto(here)
    page.get_by_role("link", name="1 and 2").click()
    page.get_by_role("link", name="Compare the two with each other").click()
    change = page.locator("section.diff", has_text="receipt.py").first
    change.get_by_role("button", name=re.compile("Take this file from ")).click()
    expected = f"of {two}\n".encode()
    until(lambda: lead.get(f"/workspaces/{one}/files/receipt.py", expect=None).body == expected)
    assert lead.get(f"/workspaces/{one}/files/till.py").body == f"of {one}\n".encode()

    page.goto(here)
    page.get_by_role("button", name="Throw attempt 2 away").click()
    expect(page.locator("#attempt-2")).to_contain_text("Thrown away", timeout=LATER_MS)
    until(lambda: lead.get(f"/tasks/{made['id']}").json["attempts"][1]["in_trash_until"])
    page.get_by_role("button", name="Bring attempt 2 back").click()
    expect(page.get_by_role("button", name="Throw attempt 2 away")).to_be_visible(timeout=LATER_MS)
    assert lead.get(f"/tasks/{made['id']}").json["attempts"][1]["in_trash_until"] is None

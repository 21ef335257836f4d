"""From a ticket to the merge on a phone in at most eight taps, with the code host's stand-in and a real git server."""

import pytest
from playwright.sync_api import expect

from tests.approvals.agent_runs.code_host.test_in_the_product import GIT, LABEL, host  # noqa: F401 - a fixture
from tests.support.code_host import TOKEN
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until

from .conftest import TEAM, settle

pytestmark = pytest.mark.timeout(900)
TAPS = 8
LATER_MS = 120_000  # the host is read, workspaces are made
SECRET = """
from dashboard.models import Actor, Team
from workspaces import secrets
secrets.save(Team.objects.get(slug={team!r}), {name!r}, "host", {token!r}, by=Actor.system("tests"))
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    running = Product(tmp_path_factory.mktemp("ticket") / "home", HANDRAIL_PRIVATE_SOURCES="1")
    running.start()
    yield running
    running.clean_up()


@pytest.fixture
def signed_in():
    return {}  # others sign in to another product


@pytest.fixture
def size():
    return "phone"


@pytest.fixture
def lead(product, host):  # noqa: F811
    """A lead whose account is known at the host, over the API; the repository gives tasks of two attempts by hand."""
    desk = Desk(product, product.person_token("lena", "lead", TEAM))
    name = f"CODE_HOST_127_0_0_1_{host.url.rpartition(':')[2]}"
    product.shell(SECRET.format(team=TEAM, name=name, token=TOKEN))
    wish = {"address": host.address, "kind": "gitea", "label": LABEL, "attempts": [{}, {}]}
    desk.post("/task-sources", wish, 200)
    admin_of(product).post("/host-accounts", {"person": "lena", "host": host.url, "login": "lena-at-host"})
    return desk


def admin_of(product) -> Desk:
    return Desk(product, product.person_token("alice", "admin", TEAM))


class Taps:
    """Everything that the lead taps, at the host too."""

    def __init__(self, page):
        self.page, self.count = page, 0

    def on(self, what):
        settle(self.page)
        self.count += 1
        what.click()


def test_from_a_ticket_to_the_merge(product, host, lead, person):  # noqa: F811
    page = person("lena", "lead")
    taps = Taps(page)
    number = host.issue("Round the till", "It rounds wrongly.")
    host.label(number, LABEL, "lena-at-host")
    taps.count += 1
    begun = until(lambda: next((post for post in host.posts() if "have begun" in post), ""), within=300)
    page.goto(begun.rpartition(" ")[2])
    taps.count += 1
    expect(page.locator("h1")).to_have_text("Round the till")
    one = attempts(lead)[0]["workspace"]
    works(product, lead, one)

    taps.on(page.get_by_role("link", name="Asks you (1)"))
    expect(page.locator("h1")).to_contain_text("Write .env")
    taps.on(page.get_by_role("button", name="Approve").first)
    expect(page.locator("h1")).to_have_text("Round the till")

    taps.on(page.get_by_role("button", name="Choose attempt 1 and open a pull request"))
    expect(page.get_by_role("link", name="Pull request #")).to_be_visible(timeout=LATER_MS)
    assert [(pull["head"], pull["title"]) for pull in host.pulls] == [(f"handrail/{one}", "Round the till")]
    host.merge(host.pulls[0]["number"], "lena-at-host")
    taps.count += 1
    expect(page.locator("#task-state .state").first).to_have_text("Merged", timeout=LATER_MS)
    until(lambda: lead.get(f"/workspaces/{one}").json["state"] == "archived", within=240)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    print(f"{taps.count} taps")
    assert taps.count <= TAPS


def attempts(lead) -> list[dict]:
    [task] = lead.get("/tasks").json["tasks"]
    found = lead.get(f"/tasks/{task['id']}").json["attempts"]
    for each in found:
        lead.settled(each["workspace"])
    return found


def works(product, lead, key: str):
    """What an agent does in an attempt: it commits, and asks."""
    lead.run(key, f"echo 'total = 1' > till.py && {GIT} commit -qam Round")
    agent = product.agent_token("worker", TEAM)
    admin_of(product).call("PATCH", f"/workspaces/{key}", {"agents": ["worker"]})
    call = {"tool": "Bash", "arguments": {"command": "echo asked > .env"}, "workspace": key, "cwd": "/workspace"}
    answer = product.post("/api/v1/actions", agent, call | {"mode": "gate"})
    assert answer.status == 201, answer.text

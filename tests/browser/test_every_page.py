"""Every page there is, once: at 320, 390 and 1280 px, light and dark, nothing is wider than the screen, the strict
policy holds, and axe finds nothing serious. A new address is walked to by itself."""

import json

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.pages.test_every_url import ROUTES
from tests.support.chromium import fetch

from .conftest import SIZES, TEAM

LOOKS = [("phone", "light"), ("phone", "dark"), ("desktop", "dark"), ("desktop", "light")]
NARROW = {"width": 320, "height": 256}  # WCAG 1.4.10: 1280 by 1024 px at 400 %
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# What axe finds of the kinds that matter; rules whose findings are never of these kinds need not run.
SERIOUS = """async () => {
    const matters = impact => impact === 'serious' || impact === 'critical';
    const others = axe._audit.rules.filter(rule => !matters(rule.impact));
    const rules = Object.fromEntries(others.map(rule => [rule.id, {enabled: false}]));
    rules["target-size"] = {enabled: true}; // WCAG 2.2: 24 px, or room around; axe leaves it out unless it is named
    const found = await axe.run({rules, resultTypes: ['violations'], selectors: false});
    return found.violations.filter(rule => matters(rule.impact)).map(rule => rule.id + ': ' +
        rule.nodes.slice(0, 3).map(node => node.html.replace(/\\s+/g, ' ').slice(0, 160)).join(' | '));
}"""


def lasting_faults(page) -> list[str]:
    """Return the serious faults of a page, but for what a bar covers only where the page is scrolled to."""
    found = page.evaluate(SERIOUS)
    if found:
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        return sorted(nodes_of(found) & nodes_of(page.evaluate(SERIOUS)))
    return found


def nodes_of(faults: list[str]) -> set[str]:
    return {f"{fault.partition(': ')[0]}: {node}" for fault in faults for node in fault.partition(": ")[2].split(" | ")}


@pytest.fixture(scope="module")
def size():
    return "phone"


@pytest.fixture(scope="module")
def things(product, token, workspace):
    """Ids of one of everything that an address can name, by the word before it in the route."""

    def post(path, body):
        answer = product.post(f"/api/v1{path}", token, body)
        assert answer.status < 300, answer.text
        return answer.json["id"]

    ask = {"tool": "Bash", "mode": "gate", "workspace": workspace, "reasoning": "It is done."}
    push = {"command": "git push --force origin main && rm -rf build\u200b/"}
    made = {
        "commands": post(f"/workspaces/{workspace}/commands", {"command": "seq 2000; echo said"}),
        "terminals": post(f"/workspaces/{workspace}/terminals", {"argv": ["bash", "-c", "echo there; sleep 600"]}),
        "actions": post("/actions", ask | {"arguments": push}),
    }
    file = {"file_path": "/workspace/.github/workflows/ci.yml", "content": "on: push\n" * 30}
    write = post("/actions", ask | {"tool": "Write", "arguments": file, "mode": "broker"})
    product.call("PUT", f"/api/v1/workspaces/{workspace}/files/cart.py", token, b"def total(items):\n    return 0\n")
    long = "echo " + "x" * 3000 + "\n" + "\n".join(f"echo {n}" for n in range(300)) + "\ngit push origin main"
    read = post("/actions", ask | {"arguments": {"command": long}})
    rows = product.shell(ROWS.format(team=TEAM, key=workspace))
    return made | json.loads(rows) | {"also": [f"/actions/{write}/", f"/actions/{read}/"]}


ROWS = """
import json
from workspaces.models import Operation, Environment
environment = Environment.objects.filter(team__slug={team!r}).first()
operation = Operation.objects.filter(workspace__key={key!r}, exclusive=True).order_by("created_at").first()
from dashboard.database import clock
from approvals.agent_runs.definitions import content
from approvals.models import AgentDefinition, AgentRun
place = operation.workspace
agent = place.created_by_agent or place.team.agents.first()
long = {{"system": "Look twice. " * 100, "memory": [{{"label": "x" * 90, "value": "y" * 300}}]}}
long |= {{"tools": [{{"name": "z" * 90, "schema": {{}}, "approval": "ask"}}], "variables": {{"A": "b" * 200}}}}
defined = {{"content": content.checked(long), "created_at": clock.now()}}
AgentDefinition.objects.get_or_create(team=place.team, name="Reviewer", version=1, defaults=defined)
row = {{"team": place.team, "workspace": place, "agent": agent, "task": "Make it green " * 30, "summary": "x" * 300}}
row |= {{"program": "codex@1.2.3", "model": "gpt-5", "state": "asks", "reason": "Its budget is met: 9 tokens."}}
run, _ = AgentRun.objects.get_or_create(
    token_sha256="0" * 64, defaults=row | {{"created_at": clock.now(), "changed_at": clock.now()}}
)
print(json.dumps({{"agent-runs": str(run.pk), "environments": str(environment.pk), "operations": str(operation.pk)}}))
"""


def addresses(things, workspace) -> list[str]:
    """Each address of ours that names something of this team."""
    found = list(things["also"])
    for route, _ in ROUTES:
        route = route.replace("<str:name>", "Reviewer")
        address = "/" + route.replace("<slug:team>", TEAM).replace("<str:key>", workspace).replace("<int:number>", "1")
        for word, pk in things.items():
            address = address.replace(f"{word}/<uuid:pk>", f"{word}/{pk}")
        if "<" not in address:
            found.append(address)
    here = f"/w/{TEAM}/{workspace}/"
    found += [
        "/connect/?tab=python",
        "/connect/?tab=mcp",
        "/connect/?tab=aap",
        "/connect/?tab=acp",
        "/connect/?tab=http",
        "/policy/?try=git+push+--force",
        "/log/?verb=command.asked",
    ]
    found += [f"{here}files/?path=cart.py", f"{here}changes/?from=1&to=live", "/actions/?outcome=waiting"]
    return found


@pytest.fixture(scope="module")
def shown() -> list[str]:
    """The addresses that show a page, once a test has asked for each."""
    return []


def pages_of(page, product, addresses, found: list) -> list[str]:
    """Return the addresses that show a page: those in `found`, which is filled if it is empty."""
    shows = []
    for address in () if found else addresses:
        answer = fetch(page, product, address)
        kind, how = answer.headers.get("content-type", ""), answer.headers.get("content-disposition", "")
        if answer.status == 200 and "text/html" in kind and "attachment" not in how:
            shows.append(address)
        else:
            assert answer.status in (200, 302, 403, 404, 405, 409), (address, answer.status)
    found += shows
    return found


@pytest.mark.timeout(600)  # every page in turn
def test_the_german_pages_fit_and_say_that_they_are_german(product, person, things, workspace, shown):
    page = person("anna", "admin", locale="de-DE")
    faults, shown = {}, pages_of(page, product, addresses(things, workspace), shown)
    for address in shown:
        page.goto(product.desk + address)
        assert page.evaluate("document.documentElement.lang") == "de", address
        for name, size in (("320 px", NARROW), ("desktop", SIZES["desktop"])):
            page.set_viewport_size(size)
            if (wide := page.evaluate(TOO_WIDE)) > 0:
                faults[f"{address} {name}"] = f"{wide} px too wide"
    assert faults == {}, json.dumps(faults, indent=1)
    assert len(shown) > 45


@pytest.mark.timeout(600)  # every page in turn
def test_no_page_has_a_serious_fault_or_is_wider_than_the_screen(product, person, things, workspace, shown):
    page = person("anna", "admin")
    page.add_init_script(AXE_SCRIPT)
    faults, shown = {}, pages_of(page, product, addresses(things, workspace), shown)
    for address in shown:
        page.goto(product.desk + address)
        page.set_viewport_size(NARROW)
        if wide := page.evaluate(TOO_WIDE):
            faults[f"{address} at 320 px"] = f"{wide} px too wide"
        for number, (size, scheme) in enumerate(LOOKS):
            page.set_viewport_size(SIZES[size])
            page.emulate_media(color_scheme=scheme)
            wide = page.evaluate(TOO_WIDE)
            # axe on a phone in one scheme and on a desktop in the other: what differs is in tokens, whose contrast the
            # style guide's tests hold in both.
            found = lasting_faults(page) if number % 2 == 0 else []
            if wide > 0:
                found.append(f"{wide} px too wide")
            if found:
                faults[f"{address} {size} {scheme}"] = found
    assert faults == {}, json.dumps(faults, indent=1)
    assert len(shown) > 45

"""What agents write on the pages around a card, in a real browser on a phone of 360 px: answers, sessions, groups, the
fields of an edit, and *Don't ask again*. All of it decodes back to its exact bytes; nothing runs and nothing loads."""

import json
import re
import uuid

import pytest

from approvals.pages.structures import MANY_FACTS

from .test_display_payloads import COMMANDS, PUSH, TEXTS, decoded, nothing_runs_and_nothing_loads, phone  # noqa: F401

SHORT = [text for text in TEXTS if text.strip() and len(text) <= 120 and "\n" not in text]
NAMES = [text for text in SHORT if len(text) <= 60]


@pytest.fixture
def agent(request):
    return f"around-{request.node.originalname.removeprefix('test_')}"


@pytest.fixture
def token(product, agent):
    return product.agent_token(agent)


@pytest.fixture
def submit(product, token):
    """`submit(arguments=…)`: an agent of this test asks; the action's JSON. It is withdrawn after the test."""
    made = []

    def ask(**call) -> dict:
        answer = product.post("/api/v1/actions", token, {"tool": "Bash", "mode": "gate", **call})
        assert answer.status == 201, answer.text
        made.append(answer.json["id"])
        return answer.json

    yield ask
    for action in made:
        product.post(f"/api/v1/actions/{action}/cancel", token)


def as_bytes(texts) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def test_what_an_agent_answers(product, phone, token, submit):  # noqa: F811
    action = submit(arguments={"command": PUSH + "true"})
    for number in range(3):
        asked = f"{product.desk}/actions/{action['id']}/ask/"
        phone.goto(asked)
        phone.get_by_label("Ask the agent").fill(f"Why? {number}")
        phone.wait_for_selector("[data-resting]", state="detached")
        phone.get_by_role("button", name="Ask", exact=True).click()
        phone.wait_for_url(f"{product.desk}/actions/{action['id']}/")
        said = "x" + "\n".join(TEXTS[number::3])[:3900]
        sent = product.post(f"/api/v1/actions/{action['id']}/messages", token, {"text": said})
        assert sent.status == 201, sent.text
        phone.goto(f"{product.desk}/actions/{action['id']}/")
        kept = said.replace("\0", "␀")
        assert decoded(phone, "[aria-label='Questions and answers'] .said")[-1] == kept.encode("utf-8", "surrogatepass")


def test_the_sessions_of_an_agent(product, phone, submit, agent):  # noqa: F811
    wanted = {}
    for text in SHORT:
        session = f"{uuid.uuid4().hex[:4]}{text}"[:200]
        title = submit(arguments={"command": f"{PUSH}true"}, session=session)["title"]
        wanted[session.replace("\0", "␀")] = title
    pk = product.shell(f"from dashboard.models import Agent; print(Agent.objects.get(name={agent!r}).pk)")
    page = f"{product.desk}/agents/{pk}/talk/"
    phone.goto(page)
    shown = decoded(phone, "[aria-label='Sessions'] .row-title")
    known = set(as_bytes(session[:12] + ("…" if len(session) > 12 else "") for session in wanted))
    assert shown
    assert [name.strip() for name in shown if name.strip() not in {one.strip() for one in known}] == []
    for link in phone.locator("[aria-label='Sessions'] a.row-title").evaluate_all("links => links.map(a => a.href)")[
        :5
    ]:
        phone.goto(link)
        assert phone.url.startswith(page)
        decoded(phone, "h1")


def test_a_group_of_alike_requests(product, phone, submit):  # noqa: F811
    commands = {submit(arguments={"command": f"git push origin main {text}"})["id"]: text for text in COMMANDS}
    for first in list(commands)[:: len(commands) // 3]:
        phone.goto(f"{product.desk}/waiting/alike/{first}/")
        rows = phone.locator("input[id^=pick-]:not([disabled])")
        ids = rows.evaluate_all("boxes => boxes.map(box => box.id.slice(5))")
        shown = dict(zip(ids, decoded(phone, ".choice code.exact"), strict=True))
        wanted = {pk: f"git push origin main {commands[pk]}".encode() for pk in ids if pk in commands}
        assert {pk: shown[pk] for pk in wanted} == wanted


@pytest.mark.parametrize("first", range(0, len(NAMES), 20))
def test_names_and_descriptions_of_fields_in_an_edit(product, phone, submit, first):  # noqa: F811
    names = NAMES[first : first + 20]
    properties = {name: {"type": "string", "description": name} for name in names}
    schema = {"type": "object", "properties": properties}
    arguments = dict.fromkeys(names, "value")
    action = submit(tool="mcp__around__say", arguments=arguments, input_schema=schema)
    phone.goto(f"{product.desk}/actions/{action['id']}/edit/")
    wanted = {name.strip() for name in as_bytes(names)}
    assert wanted - {label.strip() for label in decoded(phone, "form.form label")} == set()
    assert wanted - {words.strip() for words in decoded(phone, "form.form .help")} == set()


def test_the_values_of_an_edit_are_the_exact_ones(product, phone, submit):  # noqa: F811
    action = submit(tool="mcp__around__say", arguments={"text": "\n".join(t for t in TEXTS if "\r" not in t)})
    phone.goto(f"{product.desk}/actions/{action['id']}/edit/?as=json")
    phone.goto(f"{product.desk}/actions/{action['id']}/edit/")
    phone.get_by_label("Note to the agent").fill("seen")
    phone.get_by_role("button", name="Preview difference").click()
    assert phone.get_by_text("No difference from the original.").is_visible()


def test_texts_of_arguments_are_exact_on_the_page_of_a_permission(product, phone, submit):  # noqa: F811
    arguments = {f"a{number:02}": text for number, text in enumerate(SHORT)}
    named = list(arguments.items())
    for first in range(0, len(named), MANY_FACTS):
        some = named[first : first + MANY_FACTS]
        action = submit(tool="mcp__around__say", arguments=dict(some))
        phone.goto(f"{product.desk}/actions/{action['id']}/allow/")
        lines = [f"{name}: {text}".encode("utf-8", "surrogatepass") for name, text in some]
        assert decoded(phone, ".call .text.exact") == [b"mcp__around__say", *lines]
    action = submit(tool="mcp__around__say", arguments=arguments)  # so many are one structure, in JSON
    phone.goto(f"{product.desk}/actions/{action['id']}/allow/")
    [together] = decoded(phone, ".call .code:has(.code-head)", ".exact")
    assert json.loads(together) == arguments
    for text in SHORT[::6]:
        command = f"npm install {text}"
        action = submit(arguments={"command": command})
        if action["status"] != "pending":
            continue
        phone.goto(f"{product.desk}/actions/{action['id']}/allow/")
        assert decoded(phone, ".call > [data-attest] > .code:first-child", ".exact")[0] == command.encode()
        assert re.search("undefined|NaN", phone.locator("form.form").inner_text()) is None

"""Numbers at each door of the desk: their digits are shown, hashed, edited and handed back, or they are refused."""

import html
import json
import re
import sys
import uuid
from importlib import import_module

import pytest

from approvals.agent_runs.model_relay import bodies
from approvals.agents import dialects
from approvals.evaluation import calls
from approvals.models import Action
from approvals.pages.connect import PYTHON
from dashboard import json_text
from tests.approvals.agents.real_agents import before, headers
from tests.approvals.conftest import full
from tests.approvals.test_numbers import SPELLINGS, TOO_LARGE

TOOL = "mcp__pay__send"
WORDS = "larger than programs can hold: send it as a text"
MANY = f"[{','.join(SPELLINGS)}]"
OTHERS = f"[{','.join(reversed(SPELLINGS))}]"  # what a person edits it into
PROGRAMS = [*dialects.DIALECTS, *dialects.CLIENT_DIALECTS]


def arguments(numbers: str) -> str:
    return f'{{"amounts":{numbers}}}'


def plain(text) -> str:
    """The text without what only sets it out."""
    text = text if isinstance(text, str) else bytes(text).decode()
    return re.sub(r"\s", "", html.unescape(text)).replace("\\", "")


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


@pytest.fixture
def rest(api, agent_token):
    """By `POST /api/v1/actions`."""

    def send(numbers: str):
        body = f'{{"tool":"{TOOL}","arguments":{arguments(numbers)}}}'
        answer = api(agent_token).post("/api/v1/actions", body, content_type="application/json")
        return answer.status_code, answer.content.decode()

    return send


@pytest.fixture
def aap(api, agent_token):
    """By the Agent Approval Protocol."""

    def send(numbers: str):
        body = f'{{"tool":"{TOOL}","arguments":{arguments(numbers)},"timeout":"10m"}}'
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = api(agent_token).post("/aap/v1/requests", body, content_type="application/json", headers=key)
        return answer.status_code, answer.content.decode()

    return send


@pytest.fixture
def hooked(hook, agent_token):
    """`hooked("codex", numbers)`: by the hook of an agent; the answer that the agent reads."""

    def send(program: str, numbers: str) -> str:
        event = json.dumps(before(program, {"amounts": "N"}, TOOL)).replace('"N"', numbers)
        return full(hook(agent_token, event.encode(), path=f"/hooks/{program}", headers=headers(program))).body.decode()

    return send


def check_shown(action: Action, client, browser, agent_token, numbers=MANY):
    """What everybody is shown of the call, and what is hashed, has these digits."""
    revision = action.revisions.get(number=action.revision)
    assert f'"amounts":{numbers}' in bytes(revision.canonical).decode()
    assert calls.sha256(bytes(revision.canonical)) == action.digest
    for path in (f"/actions/{action.pk}/", f"/actions/{action.pk}/edit/"):
        assert numbers in plain(browser.get(path).content)
    answer = client.get(f"/api/v1/actions/{action.pk}", headers={"Authorization": f"Bearer {agent_token}"})
    assert numbers in plain(answer.content)


def edit_on_the_page(action: Action, browser):
    """A person opens the form, writes the other numbers and approves."""
    page = browser.get(f"/actions/{action.pk}/edit/").content.decode()
    typed = {"digest": action.digest, "approve": "1", "comment": ""}
    for name, text in re.findall(r'<textarea name="(arg-\d+)"[^>]*>\n(.*?)</textarea>', page, re.S):
        typed[name] = plain(text).replace(MANY, OTHERS) if MANY in plain(text) else html.unescape(text)
    typed |= {name: html.unescape(text) for name, text in re.findall(r'name="(arg-\d+)" value="([^"]*)"', page)}
    assert OTHERS in "".join(typed.values())
    assert browser.post(f"/actions/{action.pk}/edit/", typed).status_code == 302
    action.refresh_from_db()


@pytest.mark.django_db(transaction=True)
def test_over_the_api_and_the_page(rest, client, agent_token, browser_of, bob):
    status, told = rest(MANY)
    assert (status, MANY in plain(told)) == (201, True)
    action, browser = Action.objects.get(), browser_of(bob)
    check_shown(action, client, browser, agent_token)
    edit_on_the_page(action, browser)
    check_shown_after(action, client, browser, agent_token)
    body = json.dumps({"digest": action.digest})
    bearer = {"Authorization": f"Bearer {agent_token}"}
    used = client.post(f"/api/v1/actions/{action.pk}/consume", body, content_type="application/json", headers=bearer)
    assert (used.status_code, OTHERS in plain(used.content)) == (200, True)


def check_shown_after(action, client, browser, agent_token):
    canonical = bytes(action.revisions.get(number=action.revision).canonical).decode()
    assert (action.status, f'"amounts":{OTHERS}' in canonical) == ("approved", True)
    for path, more in ((f"/actions/{action.pk}/", {}), (f"/api/v1/actions/{action.pk}", bearer_of(agent_token))):
        assert OTHERS in plain((client if more else browser).get(path, **more).content)


def bearer_of(token: str) -> dict:
    return {"headers": {"Authorization": f"Bearer {token}"}}


@pytest.mark.django_db(transaction=True)
def test_over_the_agent_approval_protocol(aap, client, agent_token, browser_of, bob):
    status, told = aap(MANY)
    assert (status, MANY in plain(told)) == (201, True)
    action, browser = Action.objects.get(), browser_of(bob)
    check_shown(action, client, browser, agent_token)
    edit_on_the_page(action, browser)
    denied = client.get(f"/aap/v1/requests/{json.loads(told)['id']}", **bearer_of(agent_token)).content
    assert OTHERS in plain(denied)  # the protocol has no edits: the agent reads what to ask for instead
    status, told = aap(OTHERS)
    assert (status, json.loads(told)["status"], Action.objects.count()) == (201, "approved", 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("program", PROGRAMS)
def test_by_the_hook_of_each_agent(hooked, client, agent_token, browser_of, bob, program):
    hooked(program, MANY)
    action, browser = Action.objects.get(), browser_of(bob)
    check_shown(action, client, browser, agent_token)
    edit_on_the_page(action, browser)
    assert OTHERS in plain(hooked(program, MANY))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", TOO_LARGE)
def test_what_no_double_reaches_is_refused_in_words_at_each_door(rest, aap, hooked, number):
    assert {door(f"[1.10,{number}]")[0] for door in (rest, aap)} <= {400, 422}
    told = [rest(f"[{number}]")[1], aap(f"[{number}]")[1], *(hooked(program, f"[{number}]") for program in PROGRAMS)]
    assert [WORDS in text for text in told] == [True] * len(told)
    assert not Action.objects.exists()


def test_the_relay_passes_a_models_body_on_with_its_digits():
    body = f'{{"model":"m","messages":[{{"role":"user","content":[{{"type":"tool_use","input":{arguments(MANY)}}}]}}]}}'
    assert bodies.written(bodies.read(body.encode())).decode() == body
    for number in TOO_LARGE:
        with pytest.raises(bodies.BodyRefused, match=WORDS):
            bodies.read(body.replace(MANY, number).encode())


@pytest.fixture
def snippet(monkeypatch):
    """What the Connect page gives to Python programs."""
    monkeypatch.setenv("HANDRAIL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HANDRAIL_TOKEN", "hr_none")
    monkeypatch.syspath_prepend(str(PYTHON.parent))
    yield import_module("handrail")
    sys.modules.pop("handrail")


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_text_to_paste_into_a_program_reads_and_writes_the_digits(snippet, text):
    read = snippet.loads(arguments(f"[{text}]"))
    [value] = read["amounts"]
    assert (str(value), f"{value}", snippet.dumps(read)) == (text, text, f'{{"amounts": [{text}]}}')


def test_what_a_program_sends_by_itself_comes_back_to_it_as_it_was(snippet):
    own = {"a": [1, -3, 1.5, 1.0, 0.1, 1e22, 1e-7, 2**70, True, None, "1.10"]}
    back = snippet.loads(json_text.dumps(json_text.loads(snippet.dumps(own))))
    assert back == own
    assert list(map(type, back["a"])) == list(map(type, own["a"]))

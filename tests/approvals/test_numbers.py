"""Numbers of calls: the digits that were sent are the digits that are shown, hashed, edited and run, at each door."""

import io
import json
import random
import sys
from importlib import import_module
from pathlib import Path

import pytest
import rfc8785

from approvals.actions import grant_scopes
from approvals.agents import response
from approvals.evaluation import calls
from approvals.evaluation.judge import content
from approvals.models import Action
from approvals.policy import Policy, classify
from approvals.questions import question_forms
from dashboard import json_text
from dashboard.problems import Problem
from dashboard.text import strict_json
from tests.approvals.conftest import before
from tests.faults.conftest import ROUNDS
from tests.support import CHECKOUT

# What programs round, shorten or write otherwise.
SPELLINGS = [
    "0", "-0", "-0.0", "0.0", "1", "1.0", "1.00", "1e0", "1E0", "1e+0", "100", "1e2", "1E2", "1.10", "1.5", "-1.5",
    "1.000000000000000001", "0.1000000000000000055511151231257827", "1e-7", "0.0000001", "1e-07", "1e-400", "4.9e-324",
    "1e16", "10000000000000000", "1e21", "1e22", "1.7976931348623157e308", "9007199254740991", "9007199254740992",
    "9007199254740993", "9007199254740993.0", "-9007199254740993", "1234567890123456789", "-1001234567890123456",
    "18446744073709551616", "100000000000000000.99", "123456789012345678901234567890.123456789", "1" + "0" * 308,
]  # fmt: skip
# One rule for the same size in each spelling: 1e309 is 1 with 309 zeros.
TOO_LARGE = ["1e309", "1e400", "-1e999", "1" + "0" * 309, "-1" + "0" * 400, "1" + "0" * 400 + ".5", "1" + "0" * 5000]
TELLING = ["1.000000000000000001", "1234567890123456789", "1.10", "1e2", "-0"]


def number(random_: random.Random) -> str:
    """A JSON number, in any spelling that the grammar has."""
    whole = random_.choice(["0", str(random_.randrange(1, 10 ** random_.randrange(1, 25)))])
    fraction = random_.choice(["", "." + "".join(random_.choices("0123456789", k=random_.randrange(1, 25)))])
    exponent = random_.choice(
        ["", f"{random_.choice('eE')}{random_.choice(['', '+', '-'])}{random_.randrange(0, 250)}"]
    )
    return random_.choice(["", "-"]) + whole + fraction + exponent


def test_the_canonical_form_of_any_number_is_its_own_text_and_no_two_are_one():
    random_ = random.Random(28)
    texts = {*SPELLINGS, *(number(random_) for _ in range(2000 * ROUNDS))}
    found = {}
    for text in texts:
        parsed = strict_json.loads(f'{{"n":[{text}]}}'.encode())
        found[text] = strict_json.canonical(parsed)
        assert found[text] == f'{{"n":[{text}]}}'.encode()
        assert strict_json.canonical(calls.parsed(found[text])) == found[text]
        assert json_text.dumps(parsed, separators=(",", ":")).encode() == found[text]
    assert len(set(found.values())) == len(texts)
    assert not strict_json.same(strict_json.loads(b"[1]"), strict_json.loads(b"[1.0]"))


@pytest.mark.parametrize("text", TOO_LARGE)
def test_what_no_program_holds_is_refused(text):
    with pytest.raises(Problem, match="send it as a text"):
        strict_json.loads(f'{{"n":{text}}}'.encode())


def test_ordinary_calls_have_the_digests_that_they_had():
    given = {"tool": "Bash", "arguments": {"timeout": 120000, "rate": 1.5, "b": [0, -3, 0.25, True, None, "1.0"]}}
    assert (
        calls.sha256(strict_json.canonical(given)) == "d503bd8fd982fa167e85d4cc41b4966a431c704ce7e2f05ac31878c2a3d87f9f"
    )


def test_a_text_is_not_taken_for_a_number():
    value = strict_json.loads(b'{"a":"1.10","b":1.10,"c":{"1.10":"x"}}')
    assert strict_json.canonical(value) == b'{"a":"1.10","b":1.10,"c":{"1.10":"x"}}'


def test_the_client_and_the_program_for_acp_have_the_same_file():
    files = [
        "client/handrail_client/json_text.py",
        "dashboard/json_text.py",
        "approvals/hooks/acp_program/json_text.py",
    ]
    assert len({(CHECKOUT / file).read_bytes() for file in files}) == 1


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


@pytest.fixture
def submit(client, agent_token):
    """`submit(text)`: the answer to a call whose argument is the number in this spelling."""

    def post(text: str):
        body = '{"tool":"mcp__pay__send","arguments":{"amount":N,"list":[{"n":N}]}}'.replace("N", text)
        headers = {"Authorization": f"Bearer {agent_token}"}
        return client.post("/api/v1/actions", body, content_type="application/json", headers=headers)

    return post


@pytest.mark.django_db
def test_over_the_api_each_spelling_is_a_call_of_its_own_and_is_answered_as_it_was_sent(client, submit, agent_token):
    digests = set()
    for text in SPELLINGS:
        answer = submit(text)
        assert answer.status_code == 201, answer.content
        digests.add(answer.json()["digest"])
        headers = {"Authorization": f"Bearer {agent_token}"}
        shown = client.get(f"/api/v1/actions/{answer.json()['id']}", headers=headers).content.decode()
        assert f'"amount": {text}, "list": [{{"n": {text}}}]' in shown
    assert len(digests) == len(SPELLINGS)
    for text in TOO_LARGE:
        refused = submit(text)
        assert (refused.status_code, "send it as a text" in refused.json()["detail"]) == (422, True)
    assert Action.objects.count() == len(SPELLINGS)


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "de"])
def test_the_card_and_the_form_show_the_digits(submit, browser_of, bob, language):
    for text in TELLING:
        action = Action.objects.get(pk=submit(text).json()["id"])
        for path in (f"/actions/{action.pk}/", f"/actions/{action.pk}/edit/"):
            page = browser_of(bob).get(path, headers={"Accept-Language": language}).content.decode()
            assert text in page
        held = browser_of(bob).get(f"/actions/{action.pk}/edit/").content.decode()
        assert f'value="{text}"' in held


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("text", TELLING)
def test_an_edit_reaches_the_agent_through_its_hook_with_its_digits(client, hook, agent_token, token_of, bob, text):
    event = json.dumps(before({"amount": 5}, tool="mcp__pay__send"))
    hook(agent_token, event.encode())
    action = Action.objects.get()
    body = json.dumps({"verdict": "edit", "digest": action.digest, "arguments": {"amount": "N"}}).replace('"N"', text)
    headers = {"Authorization": f"Bearer {token_of(bob)}"}
    path = f"/api/v1/actions/{action.pk}/decision"
    answer = client.post(path, body, content_type="application/json", headers=headers)
    assert answer.status_code == 200, answer.content
    answer = hook(agent_token, event.encode())
    assert f'"updatedInput": {{"amount": {text}}}' in answer.body.decode()


@pytest.mark.django_db(transaction=True)
def test_a_hook_asks_about_a_64_bit_id_with_its_digits(hook, agent_token):
    event = json.dumps(before({"chat_id": 1234567890123456789, "text": "hi"}, tool="mcp__chat__post"))
    hook(agent_token, event.encode())
    action = Action.objects.get()
    assert b'"chat_id":1234567890123456789' in bytes(action.revisions.get().canonical)
    assert content(action)["arguments"]["chat_id"] == 1234567890123456789


def test_hooks_of_all_agents_are_answered_with_the_digits():
    parsed = strict_json.loads(b'{"updatedInput":{"amount":1.10}}')
    for prefer in ("", response.PREFERENCE):
        assert b"1.10" in response.body_of(prefer, parsed, decides=True)


def test_the_program_for_acp_passes_numbers_on_as_they_are(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(CHECKOUT, "approvals/hooks/acp_program")))
    for name in ("json_text", "wire"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    wire = import_module("wire")
    for text in SPELLINGS:
        line = b'{"id": 7, "params": {"rawInput": {"amount": %s}}}\n' % text.encode()
        written = io.BytesIO()
        for message in wire.messages([line]):
            wire.line_writer(written)(message)
        assert written.getvalue() == line


@pytest.mark.django_db
def test_a_document_of_an_agent_keeps_its_digits(client, agent_token):
    for text in SPELLINGS:
        headers = {"Authorization": f"Bearer {agent_token}"}
        path = f"/api/v1/documents/n{SPELLINGS.index(text)}"
        body = '{"body":{"amount":N},"seen":""}'.replace("N", text)
        assert client.put(path, body, content_type="application/json", headers=headers).status_code in (200, 201)
        assert f'"amount": {text}}}' in client.get(path, headers=headers).content.decode()


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_number_that_a_person_types_as_an_answer_keeps_its_digits(text):
    question = question_forms.Question("n", "How many?", "", (), typed=question_forms.NUMBER)
    assert json_text.dumps(question_forms._value(question, [], text)) == text


@pytest.mark.parametrize(
    ("rule", "number", "tier"),
    [
        ("amount:5", "5", "low"),
        ("amount:5", '"5"', "low"),
        ("amount:5", "5.0", "high"),
        ("amount:5", "50", "high"),
        ("amount:5*", "50", "high"),
        ("amount:*", "5", "high"),
        ("amount:1.10", "1.10", "low"),
        ("amount:1.10", "1.1", "high"),
        ("amount:1.10", "1.100", "high"),
        ("amount:1234567890123456789", "1234567890123456789", "low"),
        ("amount:1", "true", "high"),
        ("amount:None", "null", "high"),
    ],
)
def test_a_rule_covers_a_number_by_its_digits(rule, number, tier):
    policy = Policy(mode="everything", rules={"low": Policy.of_rules([f"mcp__pay__send({rule})"]).tier("low")})
    arguments = strict_json.loads(f'{{"amount":{number}}}'.encode())
    assert classify("mcp__pay__send", arguments, policy=policy).tier == tier


@pytest.mark.parametrize(
    ("number", "goes_on"), [("5", True), ("1.5", True), ("-3", True), ("1.0", False), ("1e2", False)]
)
def test_an_exact_grant_of_before_covers_the_numbers_whose_form_is_the_same_and_no_other_value(number, goes_on):
    def now(text: str) -> str:
        return grant_scopes.exactly_this(
            "mcp__pay__send", strict_json.loads(f'{{"n":{text}}}'.encode()), None, None, ()
        )

    call = {"tool": "mcp__pay__send", "arguments": {"n": json.loads(number)}, "cwd": None, "workspace": None}
    before_digits = rfc8785.dumps(call)
    granted = calls.sha256(before_digits)
    assert (now(number) == granted) == goes_on
    covered = [text for text in (*SPELLINGS, number) if now(text) == granted]
    assert {float(text) for text in covered} <= {float(number)}

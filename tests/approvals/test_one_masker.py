"""Whatever keeps a text that an agent wrote masks it in the same way: secrets, and what looks like one."""

import json
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.db.models import CharField, JSONField, TextField

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.actions.questions_to_agents import _add
from approvals.models import Action
from dashboard.models import Actor
from dashboard.people.access import caller_of
from workspaces import secrets
from workspaces.lifecycle import snapshot
from workspaces.secrets import masking
from workspaces.services.notes import texts

OWN, AWS, PASSWORD = "own-value-of-a-secret", "AKIAIOSFODNN7EXAMPLE", "hunter2hunter2"
TEXT = f"It is {OWN}; key {AWS}, password={PASSWORD}, https://ada:{PASSWORD}@example.org/x"
SHOWN = "It is [secret DEPLOY]; key [secret], password=[secret], https://…@example.org/x"
ROOT = Path(__file__).parents[2]
# The bytes of a call, and of a command that runs, are kept as a person approved them; a secret is kept sealed.
EXACT = {"Revision", "Command", "Secret", "HandedSecret", "IdempotencyKey"}


@pytest.fixture
def handed(workspace):
    """A workspace whose programs were given the secret DEPLOY."""
    secrets.search_for(workspace, "DEPLOY", "agent", OWN)
    return workspace


def kept() -> dict[str, str]:
    """{model and field: text} of all rows that hold one of the values."""
    found = {}
    for model in apps.get_models():
        fields = [
            field for field in model._meta.concrete_fields if isinstance(field, CharField | TextField | JSONField)
        ]
        if model.__name__ in EXACT:
            continue
        for row in model.objects.all():
            for field in fields:
                text = json.dumps(getattr(row, field.attname), default=str)
                if any(value in text for value in (OWN, AWS, PASSWORD)):
                    found[f"{model.__name__}.{field.name}"] = text
    return found


def test_the_masker_knows_all_of_them(handed):
    assert masking.masked(TEXT, handed) == SHOWN
    assert masking.Masker(handed).stored(TEXT) == SHOWN
    assert masking.masked(SHOWN, handed) == SHOWN
    assert texts.without_secrets(handed, TEXT) == (SHOWN, ["DEPLOY", masking.GUESSED])


def test_an_outcome_over_aap_may_be_told_twice_though_its_note_was_masked(api, agent_token, bob):
    client = api(agent_token)

    def send(path, key="one", **body):
        answer = client.generic(
            "POST", f"/aap/v1/requests{path}", json.dumps(body), "application/json", headers={"Idempotency-Key": key}
        )
        assert answer.status_code in (200, 201), answer.content
        return answer.json()

    asked = send("", tool="Bash", arguments={"command": "git push"}, timeout="10m")
    action = Action.objects.get()
    gate.decide(action, Answer("approve", action.digest), caller=caller_of(bob))
    send(f"/{asked['id']}/consume")
    note = f"password={PASSWORD}"
    first = send(f"/{asked['id']}/outcome", status="failed", note=note)
    assert first == send(f"/{asked['id']}/outcome", status="failed", note=note)
    action.refresh_from_db()
    assert action.result["note"] == "password=[secret]"


def test_what_an_agent_writes_over_the_api_is_masked_wherever_it_is_kept(api, agent_token, handed):
    client = api(agent_token)

    def send(method, path, **body):
        answer = client.generic(method, f"/api/v1{path}", json.dumps(body), "application/json")
        assert answer.status_code < 300, (path, answer.content)
        return answer.json()

    at = f"/workspaces/{handed.key}"
    call = {"tool": "Bash", "arguments": {"command": "pwd"}, "workspace": handed.key}
    asked = send("POST", "/actions", **call, reasoning=TEXT, session="s1")
    assert asked["reasoning"] == SHOWN
    used = send("POST", f"/actions/{asked['id']}/consume", digest=asked["digest"])
    told = send("POST", f"/actions/{used['id']}/outcome", status="succeeded", note=TEXT)
    assert told["result"]["note"] == SHOWN
    assert send("PATCH", at, description=TEXT)["description"] == SHOWN
    place = {"X-Handrail-Workspace": handed.key}
    for event in (
        {"hook_event_name": "UserPromptSubmit", "prompt": TEXT},
        {"hook_event_name": "Stop", "last_assistant_message": TEXT},
    ):
        body = event | {"session_id": "s1", "cwd": "/workspace"}
        answer = client.post("/hooks/claude-code", body, content_type="application/json", headers=place)
        assert answer.status_code == 200
    assert kept() == {}


def test_what_is_kept_besides_is_masked_too(handed, ask, lena):
    action = ask(workspace=handed)
    assert _add(action, "answer", TEXT).text == SHOWN
    assert snapshot(handed, by=Actor.person(lena), label=TEXT).args["label"] == SHOWN
    assert texts.stored(handed, TEXT.encode()).text == SHOWN
    assert kept() == {}


def test_only_the_masker_takes_values_out_of_texts():
    used = re.compile(r"secrets\.without_values|redaction\.clean\(|encoded_forms\(")
    known = {
        "workspaces/secrets/masking.py",
        "workspaces/secrets/__init__.py",
        "workspaces/services/notes/texts.py",  # names what it took out, and refuses where a value can't be read
        "dashboard/keys/redaction.py",
        "dashboard/keys/secret_forms.py",
        "dashboard/models.py",  # events
        "dashboard/logs.py",
        "workspaces/runner/working.py",  # outcomes of operations
        "workspaces/shim/redact.py",  # the output of programs, as bytes
        "workspaces/runner/secret_scan.py",  # these two search files
        "workspaces/services/scrub/value.py",
        "approvals/notify/messages.py",  # what leaves for a phone was masked as it was kept
    }
    found = {
        str(file.relative_to(ROOT))
        for part in ("approvals", "workspaces", "dashboard")
        for file in (ROOT / part).rglob("*.py")
        if used.search(file.read_text())
    }
    assert found - known == set(), "use workspaces.secrets.masking"

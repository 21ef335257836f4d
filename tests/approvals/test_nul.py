"""NUL in any text of a call has one answer on both databases: a card that shows it as ␀, or a refusal in words."""

import json

import pytest

from approvals.models import Action
from tests.approvals.conftest import before, full

NUL = "a\0b"
EVENTS = [
    *(before({"file_path": f"/tmp/{NUL}", "content": NUL}, tool=tool) for tool in ("Write", "Read", "Edit", "Glob")),
    before({"url": f"https://example.com/{NUL}", "prompt": NUL}, tool="WebFetch"),
    before({"path": NUL, "pattern": NUL, "query": NUL, NUL: NUL}, tool="mcp__server__tool"),
    before({"amount": NUL}, tool="mcp__pay__send"),
    before({"command": f"ls {NUL}"}),
    before({"command": "ls", "description": NUL}),
    *(before(**{name: NUL}) for name in ("session", "call_id", "cwd", "tool")),
    *(before(**{name: NUL}) for name in ("transcript_path", "permission_mode", "prompt_id", "more")),
]


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
def test_nul_in_a_field_of_a_hooks_call_is_shown_or_refused_in_words(hook, agent_token, event):
    answer = full(hook(agent_token, json.dumps(event).encode()))
    assert b"Handrail failed" not in answer.body
    for action in Action.objects.all():
        texts = [action.title, action.session, action.call_id, *map(str, action.revisions.get().reasons)]
        assert not any("\0" in text for text in texts)

"""What an agent writes into its own questions, plans and prompts, in a real browser on a phone of 360 px.

Choices decode back to their exact bytes; nothing runs, nothing loads, nothing leads away, and nothing is wider than it.
"""

import pytest

from approvals.sessions.prompts import MAX_TEXT
from tests.pages.test_plan_markdown import ATTACKS, HIDING

from .test_display_payloads import TEXTS, cut, decoded, nothing_runs_and_nothing_loads, phone, token  # noqa: F401

LABELS = [f"x{text}" for text in TEXTS]  # a choice needs a label


def submit(product, token, **call):  # noqa: F811 - the fixture's value
    answer = product.post("/api/v1/actions", token, {"mode": "gate", **call})
    assert answer.status == 201, answer.text
    return f"{product.desk}/actions/{answer.json['id']}/"


@pytest.mark.parametrize("first", range(0, len(LABELS), 40))
def test_each_choice_is_shown_to_its_last_character(product, phone, token, first):  # noqa: F811
    labels = LABELS[first : first + 40]
    options = [{"label": label, "description": label, "preview": label} for label in labels]
    asked = [{"question": f"Which of {label}?", "header": label, "options": options[:1]} for label in labels[:10]]
    arguments = {"questions": [{"question": "Which?", "options": options}, *asked]}
    phone.goto(submit(product, token, tool="AskUserQuestion", arguments=arguments))
    wanted = [label.encode("utf-8", "surrogatepass") for label in [*labels, *[labels[0]] * len(asked)]]
    assert decoded(phone, "fieldset label b.exact") == wanted
    assert decoded(phone, "fieldset label small.exact") == wanted
    questions = [b"Which?", *(f"Which of {label}?".encode("utf-8", "surrogatepass") for label in labels[:10])]
    assert decoded(phone, "legend .exact") == questions


@pytest.mark.parametrize("first", range(0, len(ATTACKS), 12))
def test_a_hostile_plan_stays_a_text(product, phone, token, first):  # noqa: F811
    plan = "\n\n".join([*ATTACKS[first : first + 12], *TEXTS[first : first + 12]])
    phone.goto(submit(product, token, tool="ExitPlanMode", arguments={"plan": plan, plan[:100]: plan}))
    assert decoded(phone, ".call .code", ".exact")[0].decode("utf-8", "surrogatepass") == plan
    assert phone.locator("article.card .plan-text :is(a, img, button, input, form, script, style, iframe)").count() == 0


@pytest.mark.parametrize("name", ["a definition", "cells beyond the columns", "a comment", "a deep quote"])
def test_what_markdown_would_hide_is_in_sight(product, phone, token, name):  # noqa: F811
    phone.goto(submit(product, token, tool="ExitPlanMode", arguments={"plan": HIDING[name]}))
    decoded(phone, ".plan-text")
    assert phone.locator(".plan-text", has_text="Then delete prod").first.is_visible()


def test_a_hostile_prompt_is_a_text(product, phone, token):  # noqa: F811
    for number, text in enumerate(TEXTS):
        session = f"hostile-prompt-{number}"
        event = {"session_id": session, "hook_event_name": "UserPromptSubmit", "prompt": f"x{text}y"}
        assert product.post("/hooks/claude-code", token, event).json == {"continue": True}
        if number % 8:
            continue
        phone.goto(submit(product, token, tool="ExitPlanMode", arguments={"plan": "Tidy up"}, session=session))
        wanted = cut(f"x{text}y".replace("\0", "␀"), MAX_TEXT)
        assert decoded(phone, "[aria-label='The prompt before this'] .said")[-1] == wanted

"""An agent's question or plan on its card: choices, comments on lines, and never an Approve of a question."""

import re

import pytest

from approvals.evaluation.judge import content
from approvals.models import Action, Status
from approvals.sessions import prompts

from .conftest import tight
from .test_hostile import HOSTILE

BRANCH = {
    "question": "Which branch?",
    "header": "Branch",
    "options": [{"label": "main", "description": "now"}, {"label": "next", "preview": "+ later"}],
}
TESTS = {"question": "Which tests?", "multiSelect": True, "options": [{"label": "unit"}, {"label": "browser"}]}
QUESTION = {"questions": [BRANCH, TESTS]}
PLAN = {"plan": "# Release\n\n1. Tag it\n2. Push it\n", "allowedPrompts": [{"tool": "Bash", "prompt": "run tests"}]}


@pytest.fixture
def question(ask):
    return ask(QUESTION, tool="AskUserQuestion", session="s1")


@pytest.fixture
def plan(ask):
    return ask(PLAN, tool="ExitPlanMode", session="s1")


def send(client, action, what, **fields):
    answer = client.post(f"/actions/{action.pk}/{what}/", {"digest": action.digest, **fields})
    action.refresh_from_db()
    return answer


def arguments_of(action):
    return content(action)["arguments"]


# It works ------------------------------------------------------------------------------------------------------------


def test_a_question_shows_its_choices_and_neither_tier_nor_approve(question, bob, browser_of, read):
    text = read(browser_of(bob), f"/actions/{question.pk}/")
    assert tight(text).count('type="radio"') == 3
    assert tight(text).count('type="checkbox" name="q2"') == 2
    for shown in ("Which branch?", "main", "now", "+ later", "Which tests?", "browser", ">Answer<"):
        assert shown in tight(text), shown
    card = text[text.index('<article class="card"') : text.index("</main>")]
    assert f"/actions/{question.pk}/approve/" not in text
    assert not re.search(r">Approve\W", tight(text[text.index("<main") :].split("<dialog")[0]))
    assert '<span class="chip" data-tone="accent">Question</span>' in card
    assert not re.search('class="chip (tier|undo)"', card)


def test_the_choices_and_words_of_a_person_are_the_answer(question, bob, browser_of):
    fields = {"q1": "2", "q2": ["1", "2"], "q2-own": "and the slow ones"}
    assert send(browser_of(bob), question, "answer", **fields).status_code == 302
    assert question.status == Status.APPROVED
    answers = {"Which branch?": "next", "Which tests?": "unit, browser, and the slow ones"}
    assert arguments_of(question) == QUESTION | {"answers": answers}
    assert question.decisions.get().verdict == "edit"


def test_words_alone_are_an_answer(question, bob, browser_of, read):
    client = browser_of(bob)
    send(client, question, "answer", **{"q1": "own", "q1-own": "a new one", "q2": "1"})
    assert arguments_of(question)["answers"] == {"Which branch?": "a new one", "Which tests?": "unit"}
    text = tight(read(client, f"/actions/{question.pk}/"))
    assert "a new one" in text
    assert "bob answered this at" in text
    assert "Answered – the agent" in text
    assert "Approved –" not in text
    assert "changed this" not in text


def test_a_plan_shows_its_lines_and_what_else_it_asks_for(plan, bob, browser_of, read):
    text = tight(read(browser_of(bob), f"/actions/{plan.pk}/"))
    for shown in ('<h2 class="exact">Release</h2>', "Comment on line 4", "allowedPrompts", "run tests", "Send back"):
        assert shown in text, shown
    assert '<span class="chip" data-tone="accent">Plan</span>' in text
    assert not re.search('class="chip (tier|undo)"', text)


def test_a_plan_is_sent_back_with_comments_on_lines(plan, bob, browser_of, read):
    client = browser_of(bob)
    send(client, plan, "plan", **{"line-4": "pull first", "comment": "Nearly.", "line-99": "nothing is there"})
    assert plan.status == Status.DENIED
    assert plan.decisions.get().comment == "Nearly.\nOn line 4 (“2. Push it”): pull first"
    assert "bob sent this back" in tight(read(client, f"/actions/{plan.pk}/"))


def test_a_plan_is_approved_with_its_comments(plan, bob, browser_of):
    send(browser_of(bob), plan, "plan", **{"line-3": "sign the tag", "approve": "1"})
    assert plan.status == Status.APPROVED
    assert plan.decisions.get().comment == "On line 3 (“1. Tag it”): sign the tag"


def test_the_next_plan_says_what_changed(plan, ask, bob, browser_of, read):
    send(browser_of(bob), plan, "plan", comment="Sign it")
    again = ask({"plan": "# Release\n\n1. Tag and sign it\n2. Push it\n"}, tool="ExitPlanMode", session="s1")
    text = tight(read(browser_of(bob), f"/actions/{again.pk}/"))
    assert "bob sent back" in text
    assert "<ins>" in text
    assert "Sign it" in text


def test_what_is_held_by_a_hook_can_be_left_to_the_terminal(ask, bob, browser_of, read):
    plan = ask(PLAN, tool="ExitPlanMode", hold_s=600)
    client = browser_of(bob)
    assert "Leave it to its terminal" in read(client, f"/actions/{plan.pk}/")
    send(client, plan, "leave")
    assert (plan.status, plan.end_code) == (Status.CANCELLED, "withdrawn")


def test_lists_show_the_words_and_no_tier(question, plan, bob, browser_of, read):
    text = tight(read(browser_of(bob), "/waiting/"))
    for action, label, words in ((question, "Question", "Which branch?"), (plan, "Plan", "Release")):
        row = re.search(rf'id="action-{action.pk}".*?</li>', text, re.DOTALL)[0]
        assert f'<span class="for-ears">{label}:' in row
        assert f">{words}</a>" in row
        assert f"icons.svg#{label.lower()}" in row
        assert action.title not in row


def test_the_card_says_what_the_person_asked_and_that_it_is_no_evidence(ask, agent, bob, browser_of, read):
    prompts.save(agent, "s9", "Ship\nthe\nrelease\nplease")
    action = ask(session="s9")
    text = tight(read(browser_of(bob), f"/actions/{action.pk}/"))
    part = text[text.index('aria-label="The prompt before this"') :]
    assert "as the agent's session says" in part.replace("&#x27;", "'")
    assert "not evidence" in part
    assert part.index("Ship\nthe\nrelease</div>") < part.index("Show all") < part.index("release\nplease")


# Who may not, and what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["answer", "plan", "leave"])
def test_only_who_may_decide_answers(question, plan, vera, mallory, browser_of, what):
    action = question if what == "answer" else plan
    assert send(browser_of(vera), action, what, q1="1", q2="1").status_code == 403
    assert send(browser_of(mallory), action, what, q1="1", q2="1").status_code == 404
    assert action.status == Status.PENDING


def test_a_viewer_reads_them_and_has_no_fields(question, plan, vera, browser_of, read):
    client = browser_of(vera)
    for action, words in ((question, "Which branch?"), (plan, "Tag it")):
        text = read(client, f"/actions/{action.pk}/")
        card = text[text.index('<article class="card"') : text.index("</article>")]
        assert words in card
        assert not re.search(r'<textarea|type="(radio|checkbox)"|<button', card)


def test_a_question_without_an_answer_keeps_what_was_typed(question, bob, browser_of):
    answer = send(browser_of(bob), question, "answer", **{"q1": "2", "q1-own": "but carefully"})
    assert (answer.status_code, question.status) == (422, Status.PENDING)
    text = tight(answer.content.decode())
    assert re.search(r'name="q1"\s+value="2" checked', text)
    assert "but carefully" in text
    assert "Question 2 has no answer yet: “" in text
    assert re.search(r'<fieldset class="choices" id="q2" aria-invalid="true">', text)
    focused = re.findall(r"<input[^>]*autofocus", text)
    assert [re.search(r'name="(\w+)"', field)[1] for field in focused] == ["q2"]


def test_comments_that_are_too_long_are_kept_in_their_fields(plan, bob, browser_of):
    answer = send(browser_of(bob), plan, "plan", **{"line-3": "x" * 2000, "line-4": "y" * 2000, "comment": "z" * 2000})
    assert (answer.status_code, plan.status) == (422, Status.PENDING)
    assert "y" * 2000 in answer.content.decode()


def test_an_answer_to_another_digest_or_of_the_wrong_kind_is_not_used(question, plan, bob, browser_of):
    client = browser_of(bob)
    old = client.post(f"/actions/{question.pk}/answer/", {"digest": "0" * 64, "q1": "1", "q2": "1"})
    assert old.status_code == 409
    assert send(client, plan, "answer", q1="1").status_code == 409
    assert send(client, question, "plan", approve="1").status_code == 409
    assert send(client, question, "approve").status_code == 422
    assert send(client, question, "leave").status_code == 409
    assert set(Action.objects.values_list("status", flat=True)) == {"pending"}


def test_the_group_page_does_not_answer_them(ask, bob, browser_of):
    plans = [ask({"plan": f"Step {n}"}, tool="ExitPlanMode") for n in range(4)]
    client = browser_of(bob)
    chosen = [f"{plan.pk}:{plan.digest}" for plan in plans]
    client.post(f"/waiting/alike/{plans[0].pk}/", {"verdict": "approve", "action": chosen})
    assert set(Action.objects.values_list("status", flat=True)) == {"pending"}


def test_an_answered_question_is_not_answered_again(question, bob, lena, browser_of, decide):
    given = {"Which branch?": "main", "Which tests?": "unit"}
    decide(question, "edit", by=bob, arguments=QUESTION | {"answers": given})
    assert send(browser_of(lena), question, "answer", q1="2", q2="1").status_code == 409
    assert arguments_of(question)["answers"] == given


# What must not happen ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", HOSTILE)
def test_what_an_agent_asks_is_text(ask, agent, bob, browser_of, read, payload):
    options = [{"label": payload, "description": payload, "preview": payload}, {"label": "no"}]
    asked = {"question": payload, "header": payload, "options": options}
    question = ask({"questions": [asked], "metadata": payload}, tool="AskUserQuestion", session="h")
    prompts.save(agent, "h", payload)
    plan = ask({"plan": f"{payload}\n\n- {payload}", payload: payload}, tool="ExitPlanMode", session="h")
    client = browser_of(bob)
    for address in (f"/actions/{question.pk}/", f"/actions/{plan.pk}/", "/waiting/", "/", "/actions/"):
        text = read(client, address)
        main = text[text.index("<main") : text.index("</main>")]
        assert "<script>alert" not in text, address
        assert "<img" not in main, address
        assert 'href="javascript' not in text, address
        assert "\u202e" not in text, address
        assert "\u200b" not in text, address
        assert "\x1b" not in text, address

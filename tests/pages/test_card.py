"""One card: what it shows, who answers, who was faster, and how it ended."""

import re
from datetime import timedelta

import pytest

from approvals.models import Action, Decision, Status
from dashboard.database import clock
from dashboard.models import Event

from .conftest import FORCE, LIST, PUSH, make_command


def card(action) -> str:
    return f"/actions/{action.pk}/"


def answer(client, action, verdict, **fields):
    return client.post(f"/actions/{action.pk}/{verdict}/", {"digest": action.digest, **fields})


def test_bytes_then_reason_then_effect_then_the_agents_words(ask, bob, browser_of, read, workspace):
    action = ask(PUSH | {"description": "a harmless look"}, workspace=workspace, reasoning="I am done.")
    text = read(browser_of(bob), card(action))
    order = [
        text.index(part) for part in ("git push origin main", "Needs approval:", "What it would do", "a harmless look")
    ]
    assert order == sorted(order)
    assert text.index("The agent says") < text.index("I am done.")
    assert text.index("a harmless look") < text.index("<summary>More</summary>")
    digest = action.digest
    assert f"…{digest[-8:-4]} {digest[-4:]}" in text
    assert "· sandboxed" in text


def test_what_cannot_be_undone_takes_a_second_step(ask, bob, browser_of, read):
    action = ask(PUSH)
    client = browser_of(bob)
    assert "Approve…" in read(client, card(action))
    second = read(client, card(action) + "approve/")
    assert "Confirm: approve" in second
    assert action.digest in second
    assert Action.objects.get(pk=action.pk).status == Status.PENDING


def test_an_approval_shows_the_next_card(ask, bob, browser_of):
    first, second = ask(PUSH), ask({"command": "git push origin next"})
    response = answer(browser_of(bob), first, "approve")
    assert response.headers["Location"] == card(second)
    first.refresh_from_db()
    assert (first.status, Decision.objects.get().user) == (Status.APPROVED, bob)


def test_after_the_last_card_comes_the_list_with_a_line_on_top(ask, bob, browser_of):
    action = ask(PUSH)
    client = browser_of(bob)
    response = client.post(f"/actions/{action.pk}/approve/", {"digest": action.digest}, follow=True)
    text = response.content.decode()
    assert response.redirect_chain[-1][0] == "/waiting/"
    assert f'<a href="{card(action)}">View</a>' in text
    assert "Approved: " in text


def test_a_no_carries_its_reason_to_the_card(ask, bob, browser_of, read):
    action = ask(PUSH)
    client = browser_of(bob)
    assert "Tell the agent what to do instead" in read(client, card(action) + "deny/")
    answer(client, action, "deny", comment="Use the staging branch.")
    action.refresh_from_db()
    assert (action.status, Decision.objects.get().comment) == (Status.DENIED, "Use the staging branch.")
    text = read(client, card(action))
    assert "bob denied this" in text
    assert "Use the staging branch." in text


def test_a_viewer_sees_the_card_and_no_way_to_answer(ask, vera, browser_of, read):
    action = ask(PUSH)
    client = browser_of(vera)
    text = read(client, card(action))
    assert "git push origin main" in text
    assert "Only a reviewer of Payments can decide this." in text
    assert "approve/" not in text
    for verdict in ("approve", "deny", "edit"):
        assert answer(client, action, verdict).status_code == 403
    assert Action.objects.get(pk=action.pk).status == Status.PENDING


def test_a_stranger_finds_no_card(ask, mallory, browser_of):
    action = ask(PUSH)
    client = browser_of(mallory)
    assert client.get(card(action)).status_code == 404
    assert answer(client, action, "approve").status_code == 404


def test_the_second_reviewer_sees_who_was_first(ask, decide, bob, lena, browser_of):
    action = ask(PUSH)
    decide(action, by=lena)
    response = answer(browser_of(bob), action, "deny", comment="no")
    text = response.content.decode()
    assert response.status_code == 409
    assert "lena approved this" in text
    assert "ago. Your answer was not used." in text
    assert Decision.objects.count() == 1


def test_an_answer_to_other_bytes_is_not_used(ask, bob, lena, browser_of, decide):
    action = ask(PUSH)
    looked_at = action.digest
    action.digest = looked_at
    decide(action, "edit", by=lena, arguments=FORCE)
    response = browser_of(bob).post(f"/actions/{action.pk}/approve/", {"digest": looked_at})
    assert response.status_code == 409
    assert "Your answer was not used." in response.content.decode()
    assert Action.objects.get(pk=action.pk).status == Status.PENDING


def test_an_answer_after_the_end_is_not_used(ask, bob, browser_of):
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    response = answer(browser_of(bob), action, "approve")
    text = response.content.decode()
    assert response.status_code == 409
    assert "before anyone answered. The agent was told" in text
    assert "that isn't a denial" in text
    assert Action.objects.get(pk=action.pk).status == Status.EXPIRED


def test_the_same_answer_twice_is_one_answer(ask, bob, browser_of):
    action = ask(PUSH)
    client = browser_of(bob)
    assert answer(client, action, "approve").status_code == 302
    assert answer(client, action, "approve").status_code == 409
    assert Decision.objects.count() == 1


def test_what_is_critical_says_who_has_said_yes(ask, bob, lena, browser_of, read):
    action = ask(FORCE)
    client = browser_of(bob)
    assert answer(client, action, "approve").status_code == 302
    text = read(client, card(action))
    assert "You approved this. It needs one more approval." in text
    assert "bob approved this" in text
    assert "Change to deny" in text
    assert "bob approved this" in read(browser_of(lena), card(action))
    assert answer(browser_of(lena), action, "approve").status_code == 302
    assert Action.objects.get(pk=action.pk).status == Status.APPROVED


def test_a_person_who_approved_may_still_deny(ask, bob, browser_of):
    action = ask(FORCE)
    client = browser_of(bob)
    answer(client, action, "approve")
    assert "Deny" in client.get(f"/actions/{action.pk}/deny/").content.decode()
    answer(client, action, "deny")
    assert Action.objects.get(pk=action.pk).status == Status.DENIED


def test_a_card_found_by_its_team_mate_in_place_has_another_version(ask, decide, bob, lena, browser_of, read):
    action = ask(PUSH)
    client = browser_of(bob)
    assert 'data-version="pending.1.0.0"' in read(client, card(action))
    decide(action, by=lena)
    assert 'data-version="approved.1.0.0"' in read(client, card(action))


def test_what_is_unclear_is_settled_by_a_person(ask, bob, browser_of, read):
    action = ask(LIST)
    Action.objects.filter(pk=action.pk).update(status=Status.UNCERTAIN, result={"note": "The runner stopped at 14:02."})
    client = browser_of(bob)
    text = read(client, card(action))
    assert "Outcome unknown: it may have run." in text
    assert "The runner stopped at 14:02." in text
    client.post(f"/actions/{action.pk}/settle/", {"outcome": "succeeded"})
    assert Action.objects.get(pk=action.pk).status == Status.SUCCEEDED
    client.post(f"/actions/{action.pk}/settle/", {"outcome": "failed"})
    assert Action.objects.get(pk=action.pk).status == Status.SUCCEEDED


def test_a_viewer_settles_nothing(ask, vera, browser_of):
    action = ask(LIST)
    Action.objects.filter(pk=action.pk).update(status=Status.UNCERTAIN)
    assert browser_of(vera).post(f"/actions/{action.pk}/settle/", {"outcome": "succeeded"}).status_code == 403


def test_rolling_back_leads_to_a_page_of_its_own(ask, lena, browser_of, workspace, read):
    action = ask(LIST, workspace=workspace)
    Action.objects.filter(pk=action.pk).update(status=Status.SUCCEEDED, snapshot_before=workspace.baseline)
    client = browser_of(lena)
    assert ">Roll back</a>" in read(client, card(action))
    assert "Roll back A-1?" in read(client, f"/actions/{action.pk}/rollback/")
    refused = client.post(f"/actions/{action.pk}/rollback/", {"seen": ""}, follow=True).content.decode()
    assert refused.count("Snapshots cannot be read") == 2  # why it was refused, and what the page says of it


# Edit ----------------------------------------------------------------------------------------------------------------


def test_an_edit_shows_the_difference_before_it_counts(ask, bob, browser_of):
    action = ask(PUSH)
    response = browser_of(bob).post(
        f"/actions/{action.pk}/edit/", {"digest": action.digest, "command": "git push origin staging", "look": "1"}
    )
    text = response.content.decode()
    assert "Approve edited version" in text
    assert text.count('<tr class="removed">') == 1
    assert text.count('<tr class="added">') == 1
    assert Action.objects.get(pk=action.pk).revision == 1


def test_an_edit_within_ones_right_is_approved_at_once(ask, bob, browser_of, read):
    action = ask(PUSH)
    client = browser_of(bob)
    fields = {"digest": action.digest, "command": "git push origin staging", "comment": "Not main.", "approve": "1"}
    assert client.post(f"/actions/{action.pk}/edit/", fields).status_code == 302
    action.refresh_from_db()
    assert (action.status, action.revision) == (Status.APPROVED, 2)
    assert action.digest != fields["digest"]
    text = read(client, card(action))
    assert "bob changed and approved this" in text
    assert "git push origin staging" in text
    changes = read(client, card(action) + "changes/")
    assert changes.count('<tr class="removed">') == 1


def test_an_edit_the_policy_forbids_changes_nothing(ask, bob, browser_of):
    action = ask(PUSH)
    fields = {"digest": action.digest, "command": "rm -rf /", "approve": "1"}
    response = browser_of(bob).post(f"/actions/{action.pk}/edit/", fields)
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    action.refresh_from_db()
    assert (action.status, action.revision) == (Status.PENDING, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ('["a"]', "The arguments are an object"),
        ('{"a": "\\ud800"}', "no canonical form"),
    ],
)
def test_arguments_that_make_no_sense_get_a_sentence(ask, bob, browser_of, text, words):
    action = ask({"x": 1}, tool="mcp__server__tool")
    response = browser_of(bob).post(
        f"/actions/{action.pk}/edit/", {"digest": action.digest, "arguments_json": text, "approve": "1"}
    )
    assert response.status_code == 200
    assert words in response.content.decode()
    assert Action.objects.get(pk=action.pk).revision == 1


def test_an_edit_keeps_line_ends_as_they_were(ask, bob, browser_of):
    action = ask({"command": "git push origin main\necho done"})
    fields = {"digest": action.digest, "command": "git push origin main\r\necho done", "look": "1"}
    text = browser_of(bob).post(f"/actions/{action.pk}/edit/", fields).content.decode()
    assert "No difference from the original." in text


# Evidence ------------------------------------------------------------------------------------------------------------


def test_an_edit_outside_every_workspace_shows_its_own_lines(ask, bob, browser_of, read):
    edit = {"file_path": "/etc/motd", "old_string": "calm\n", "new_string": "loud\n"}
    action = ask(edit, tool="Edit", cwd="/tmp")
    text = read(browser_of(bob), card(action))
    assert "outside the workspace" in text
    assert text.count('<tr class="removed">') == 1
    assert text.count('<tr class="added">') == 1


def test_evidence_that_cannot_be_had_says_why(ask, bob, browser_of, read, workspace):
    """Nothing runs here, so the file as it is now cannot be read."""
    write = {"file_path": "/workspace/.github/workflows/ci.yml", "content": "on: push\n"}
    action = ask(write, tool="Write", workspace=workspace)
    text = read(browser_of(bob), card(action))
    assert "The runner does not answer" in text
    assert "on: push" in text


def test_a_reviewer_gives_it_more_time_and_a_viewer_does_not(ask, bob, vera, browser_of, settings):
    settings.HANDRAIL_EXPIRY_SECONDS = 3600
    action, late = ask(expires_in_s=60), ask({"command": "git push origin late"}, expires_in_s=1)
    here = f"/actions/{action.pk}/"
    assert f'action="{here}extend/"' in browser_of(bob).get(here).content.decode()
    assert browser_of(vera).post(f"{here}extend/").status_code == 403
    assert browser_of(bob).post(f"{here}extend/").headers["Location"] == here
    was, until = action.expires_at, Action.objects.get(pk=action.pk).expires_at
    assert timedelta(minutes=55) < until - was <= timedelta(minutes=60)
    assert Event.objects.get(verb="action.extended").data["until"] == until.isoformat()
    Action.objects.filter(pk=late.pk).update(expires_at=late.created_at)
    answer = browser_of(bob).post(f"/actions/{late.pk}/extend/", follow=True)
    assert "This expired before anyone answered." in answer.content.decode()
    assert Action.objects.get(pk=late.pk).status == "expired"


def test_what_the_reviewer_was_told_stays_with_the_decision(ask, decide, bob, browser_of, read):
    action = ask({"command": "curl -d secret https://e.org/x"})
    client, told = browser_of(bob), ("POST to e.org.", "Sends 6 bytes from the command line.")
    assert [text in read(client, card(action)) for text in told] == [True, True]
    decide(action, by=bob)
    assert [text in read(client, card(action)) for text in told] == [True, True]


def test_the_difference_that_was_approved_stays_when_its_snapshot_is_gone(ask, decide, bob, browser_of, read):
    edit = {"file_path": "/etc/app.conf", "old_string": "a = one", "new_string": "a = two"}
    action = ask(edit, tool="Edit")
    decide(action, by=bob)
    before = read(browser_of(bob), card(action))
    Action.objects.filter(pk=action.pk).update(status=Status.SUCCEEDED, consumed_at=clock.now(), ended_at=clock.now())
    after = read(browser_of(bob), card(action))
    assert [("a = one" in text, "a = two" in text) for text in (before, after)] == [(True, True)] * 2
    assert "its snapshot was deleted" not in after


def test_a_card_no_longer_says_can_be_undone_once_its_snapshot_is_deleted(ask, bob, browser_of, read, workspace):
    action = ask({"file_path": "a.txt", "content": "1"}, tool="Write", workspace=workspace)
    ran = {"status": Status.SUCCEEDED, "consumed_at": clock.now(), "ended_at": clock.now()}
    Action.objects.filter(pk=action.pk).update(snapshot_before=workspace.head, tier="medium", undo="yes", **ran)
    client = browser_of(bob)
    text = read(client, card(action))
    assert ("Reversible" in text, "Roll back" in text) == (True, False)
    workspace.head = None
    workspace.save()
    Action.objects.get(pk=action.pk).snapshot_before.delete()
    text = read(client, card(action))
    assert ("Reversible" in text, "its snapshot was deleted" in text) == (False, True)


def test_what_waits_because_nobody_can_look_does_not_say_that_it_runs(ask, workspace):
    away = ask({"file_path": "a.txt", "content": "1"}, tool="Write", workspace=workspace)
    outside = ask({"command": "python -m pytest"})
    for action in (away, outside):
        assert action.status == Status.PENDING
        assert [text.partition(":")[0] for text in action.revisions.get().reasons] == ["Needs approval"]


def test_what_was_decided_needs_no_approval_any_more(ask, decide, bob, browser_of, read):
    action = ask()
    assert "Needs approval: " in read(browser_of(bob), card(action))
    decide(action, "deny", by=bob)
    text = read(browser_of(bob), card(action))
    assert ("Needs approval: " in text, "Asked for approval: " in text) == (False, True)


def link_to_changes(text) -> tuple[str, str]:
    found = re.search(r'<a href="[^"]*/changes/\?([^"]*)"> ([^<]+?) </a>', text)
    return found[1].replace("&amp;", "&"), found[2]


def test_a_card_leads_to_what_its_call_changed(ask, bob, browser_of, read, workspace):
    action = ask({"file_path": "a.txt", "content": "1"}, tool="Write", workspace=workspace)
    ran = {"status": Status.SUCCEEDED, "consumed_at": clock.now(), "ended_at": clock.now()}
    client, found = browser_of(bob), Action.objects.filter(pk=action.pk)
    found.update(snapshot_before=workspace.head, **ran)
    assert link_to_changes(read(client, card(action))) == ("from=2&to=live", "What it changed")
    made = make_command(workspace, "make test", started_at=clock.now())
    assert link_to_changes(read(client, card(action))) == ("from=2&to=live", "Changes since, by it and others")
    made.delete()
    found.update(snapshot_before=workspace.baseline)
    workspace.snapshots.filter(number=2).update(created_at=clock.now())
    assert link_to_changes(read(client, card(action))) == ("from=1&to=2", "What it changed")


def test_the_card_of_a_pull_request_says_where_it_goes_before_what_it_says(ask, workspace, bob, browser_of, read):
    workspace.source = {"git": "https://git.example.org/team/shop.git", "default_branch": "trunk"}
    workspace.save()
    wish = {"branch": "agent/x", "base": "", "title": "Count", "body": "Long\ntext", "draft": True}
    how = {"tool": "Handrail.PullRequest", "workspace": workspace, "own_verb": True}
    text = read(browser_of(bob), card(ask(wish, **how)))
    shown = [
        r'id="card-push"',
        "team/shop.git",
        "agent/x",
        "<code>trunk</code>",
        "the default branch",
        "Count",
        "draft",
    ]
    found = re.search(".*?".join([*shown, 'id="evidence"', "Description", "Long"]), text, re.DOTALL)
    assert found, text
    text = read(browser_of(bob), card(ask({"branch": "Trunk"}, **how | {"tool": "Handrail.Push"})))
    assert re.search(r'<code>Trunk</code>\s*<strong class="changed-by">the default branch', text)

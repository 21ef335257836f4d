"""Comments on lines of diffs: drafts of one person, sent as a message or with a denial, shown beside their line."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals.actions import gate
from approvals.line_comments import drafts
from approvals.models import AgentMessage, LineComment
from approvals.sessions import messages
from dashboard.models import Event
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_token
from tests.pages.conftest import keep_tree, make_workspace, tight

HERE = "/w/payments/reviewed/changes/"
BEFORE = "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"
AFTER = "one = 1\ntwo = 22\nthree = 3\nfour = 4\nfive = 5\n"
MOVED = "zero = 0\none = 1\ntwo = 22\nthree = 3\nfour = 4\nfive = 5\n"
WITHOUT = "one = 1\nthree = 3\nfour = 4\nfive = 5\n"


@pytest.fixture
def workspace(team, agent, tmp_path):
    """Snapshots 1 and 2 have BEFORE and AFTER in app.py."""
    made = make_workspace(team, agent, "reviewed")
    for number, text in ((1, BEFORE), (2, AFTER)):
        put(made, tmp_path, number, text)
    return made


def put(workspace, folder, number: int, text: str):
    tree = keep_tree(workspace.team, folder / f"{number}-{len(text)}", {"app.py": text})
    workspace.snapshots.filter(number=number).update(tree=tree)


@pytest.fixture
def write(workspace, browser_of, bob):
    """`write(line="2", text="Why?")`: bob's form on app.py, between snapshots 1 and 2."""

    def post(client=None, **fields):
        wish = {"side": "new", "line": "2", "text": "Why not a constant?", **fields}
        return (client or browser_of(bob)).post(f"{HERE}comment/?from=1&to=2&path=app.py", wish)

    return post


@pytest.fixture
def shown(read, browser_of, bob):
    """`shown()`: the changes from snapshot 1 to 2, as bob sees them."""
    return lambda client=None: read(client or browser_of(bob), f"{HERE}?from=1&to=2&view=unified")


@pytest.fixture
def card(ask, workspace):
    """A call whose card shows a diff of a new file."""
    patch = "*** Begin Patch\n*** Add File: ../new.py\n+a = 1\n+b = 2\n*** End Patch"
    return ask({"input": patch}, tool="apply_patch", workspace=workspace)


def row_after(html: str, line: int) -> str:
    """Return what stands in the row below the line with this new number."""
    return tight(html).partition(f'data-n="{line}"></td><td class="sign">')[2].partition("<tr")[2].partition("</tr>")[0]


# It works ------------------------------------------------------------------------------------------------------------


def test_a_draft_is_shown_below_its_line_to_its_writer_alone(write, shown, browser_of, alice):
    assert write().status_code == 302
    assert "Why not a constant?" in row_after(shown(), 2)
    assert "Why not a constant?" not in shown(browser_of(alice))
    assert not Event.objects.filter(verb="comments.sent").exists()


def test_the_form_needs_no_script(write, shown):
    html = shown()
    form = html.partition("data-comment-form")[2].partition("</form>")[0]
    assert re.findall(r'name="(line|end|side|text)"', form) == ["line", "end", "side", "text"]


def test_drafts_go_to_the_agent_as_one_message(write, shown, browser_of, bob, alice, agent, agent_token):
    write()
    write(line="1", end="3", side="old", text="Keep\u202e these.")
    answer = browser_of(bob).post(f"{HERE}comments/send/", {"agent": str(agent.pk), "from": "1", "to": "2"})
    assert answer.headers["Location"] == f"{HERE}?from=1&to=2"
    message = AgentMessage.objects.get()
    assert message.text == (
        "app.py:2: Why not a constant?\n> two = 22\n\n"
        "app.py:1-3 (before the change): Keep\u202e these.\n> one = 1\n> two = 2\n> three = 3"
    )
    sent = Event.objects.get(verb="comments.sent")
    assert sent.data == {"count": 2, "paths": ["app.py"], "message": str(message.pk)}
    html = shown(browser_of(alice))
    assert "as a message" in row_after(html, 2)
    assert "not read yet" in row_after(html, 2)
    assert "\u202e" not in html
    assert "U+202E" in html
    caller = caller_by_token(find_token(agent_token))
    messages.mark_given(messages.claim(caller, "s1"), messages.HOOK, by=caller.actor)
    assert "given to the agent" in row_after(shown(browser_of(alice)), 2)


def test_a_denial_takes_the_drafts_on_card_and_changes_along(write, card, browser_of, bob, read, shown):
    write()
    client = browser_of(bob)
    client.post(f"/actions/{card.pk}/comment/", {"path": "../new.py", "side": "new", "line": "2", "text": "No b."})
    assert "Send my 2 comments on lines along" in read(client, f"/actions/{card.pk}/deny/")
    client.post(f"/actions/{card.pk}/deny/", {"digest": card.digest, "comment": "Not yet.", "comments": "1"})
    decision = card.decisions.get()
    assert decision.comment == ("Not yet.\n\napp.py:2: Why not a constant?\n> two = 22\n\n../new.py:2: No b.\n> b = 2")
    assert {(each.state, each.decision_id) for each in LineComment.objects.all()} == {("sent", decision.pk)}
    assert f'with the denial of<a href="/actions/{card.pk}/">A-{card.number}</a>' in row_after(shown(), 2)
    gate.mark_heard(gate.find(card.pk, caller=caller_of(bob)))
    assert "given to the agent" in row_after(shown(), 2)


def test_a_denial_that_is_taken_back_leaves_drafts(write, card, browser_of, bob):
    write()
    client = browser_of(bob)
    client.post(f"/actions/{card.pk}/deny/", {"digest": card.digest, "comments": "1"})
    assert not LineComment.objects.get().is_draft
    client.post(f"/actions/{card.pk}/undo/")
    assert LineComment.objects.get().is_draft


def test_a_denial_without_the_box_leaves_the_drafts(write, card, browser_of, bob):
    write()
    browser_of(bob).post(f"/actions/{card.pk}/deny/", {"digest": card.digest, "comment": "No."})
    assert card.decisions.get().comment == "No."
    assert LineComment.objects.get().is_draft


def test_a_comment_on_a_card_is_beside_its_line_and_goes_as_a_message(card, browser_of, bob, read, agent):
    client = browser_of(bob)
    wish = {"path": "../new.py", "side": "new", "line": "1", "text": "Name it."}
    assert client.post(f"/actions/{card.pk}/comment/", wish).status_code == 302
    assert "Name it." in row_after(read(client, f"/actions/{card.pk}/"), 1)
    client.post(f"/actions/{card.pk}/comments/send/")
    assert AgentMessage.objects.get().text == "../new.py:1: Name it.\n> a = 1"
    assert "as a message" in row_after(read(client, f"/actions/{card.pk}/"), 1)


def test_a_comment_goes_with_its_line_and_is_outdated_without_it(write, shown, workspace, tmp_path):
    write()
    put(workspace, tmp_path, 2, MOVED)
    assert "Why not a constant?" in row_after(shown(), 3)
    put(workspace, tmp_path, 2, WITHOUT)
    html = shown()
    assert "written on line 2, which is gone" in html
    assert '<div class="said exact">two = 22</div>' in tight(html)


def test_a_draft_is_changed_and_deleted(write, browser_of, bob, read):
    write()
    comment, client = LineComment.objects.get(), browser_of(bob)
    address = f"/comments/{comment.pk}/"
    assert "two = 22" in read(client, address)
    client.post(address, {"text": "Make it one."})
    comment.refresh_from_db()
    assert comment.text == "Make it one."
    client.post(address, {"delete": "1"})
    assert not LineComment.objects.exists()


def test_htmx_gets_the_file_and_the_list_of_drafts(write, browser_of, bob):
    client = Client(headers={"HX-Request": "true"})
    client.force_login(bob)
    html = write(client).content.decode()
    assert "Why not a constant?" in row_after(re.sub(" {2,}", " ", html), 2)
    assert 'id="draft-comments" hx-swap-oob="true"' in html
    refused = write(client, line="99").content.decode()
    assert "There is no line 99 after the change." in refused
    assert LineComment.objects.count() == 1


# Who may not, and what is refused ------------------------------------------------------------------------------------


def test_a_viewer_writes_and_sends_nothing(write, browser_of, vera, card):
    client = browser_of(vera)
    assert write(client).status_code == 403
    assert client.post(f"/actions/{card.pk}/comment/", {"path": "../new.py"}).status_code == 403
    assert client.post(f"{HERE}comments/send/").status_code == 403
    assert not LineComment.objects.exists()


def test_anothers_draft_is_not_there(write, browser_of, alice):
    write()
    address = f"/comments/{LineComment.objects.get().pk}/"
    assert browser_of(alice).get(address).status_code == 404
    assert browser_of(alice).post(address, {"delete": "1"}).status_code == 404


@pytest.mark.parametrize(
    "fields", [{"line": "6"}, {"line": "x"}, {"line": "3", "end": "2"}, {"text": " "}, {"side": "left"}, {"line": "0"}]
)
def test_what_names_no_line_is_refused(write, fields):
    write(**fields)
    assert not LineComment.objects.exists()


def test_a_path_that_leads_out_of_the_workspace_is_not_there(workspace, browser_of, bob):
    client, wish = browser_of(bob), {"side": "new", "line": "1", "text": "Why?"}
    for path in ("../etc/passwd", "a%00b", "nowhere.py"):
        assert client.post(f"{HERE}comment/?from=1&to=2&path={path}", wish).status_code == 404
    assert not LineComment.objects.exists()


def test_a_reason_that_is_too_long_sends_nothing(write, card, browser_of, bob):
    for _ in range(5):
        write(text="x" * 900)
    answer = browser_of(bob).post(f"/actions/{card.pk}/deny/", {"digest": card.digest, "comments": "1"})
    assert answer.status_code == 422
    card.refresh_from_db()
    assert card.status == "pending"
    assert {each.state for each in LineComment.objects.all()} == {"draft"}


def test_a_page_of_many_comments_makes_no_more_queries(write, shown, browser_of, bob):
    client = browser_of(bob)
    write(client)
    shown(client)
    with CaptureQueriesContext(connection) as few:
        shown(client)
    for _ in range(3):
        write(client)
    shown(client)  # which takes the notice
    with CaptureQueriesContext(connection) as many:
        shown(client)
    assert len(many) == len(few)


# The API -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def api(team, bob):
    """`api("POST", "/workspaces/reviewed/comments", {…}, token)`: the answer as JSON; bob's token by default."""
    own = make_token(team, user=bob)

    def call(method, path, body=None, token=own, expect=200):
        headers = {"Authorization": f"Bearer {token}"}
        send = getattr(Client(), method.lower())
        answer = send(f"/api/v1{path}", body, content_type="application/json", headers=headers)
        assert answer.status_code == expect, answer.content
        return answer.json() if answer.content else None

    return call


def test_the_api_writes_lists_changes_and_sends(api, workspace, agent, agent_token):
    wish = {"from": "1", "to": "2", "path": "app.py", "line": 5, "text": "Why five?"}
    made = api("POST", "/workspaces/reviewed/comments", wish, expect=201)
    assert (made["state"], made["quote"], made["path"], made["by"]) == ("draft", "five = 5", "app.py", "bob")
    assert api("GET", "/workspaces/reviewed/comments", token=agent_token) == {"comments": []}
    api("PATCH", f"/comments/{made['id']}", {"text": "Why not six?"})
    [sent] = api("POST", "/workspaces/reviewed/comments/send", {})["comments"]
    assert (sent["state"], sent["agent"], sent["text"]) == ("sent", agent.name, "Why not six?")
    assert api("GET", "/workspaces/reviewed/comments", token=agent_token) == {"comments": [sent]}
    api("DELETE", f"/comments/{made['id']}", expect=404)
    api("POST", "/workspaces/reviewed/comments/send", {}, expect=409)
    assert api("POST", "/workspaces/reviewed/comments", wish | {"line": 9}, expect=422)["detail"].startswith("There is")


def test_the_api_denies_with_comments(api, card, agent_token):
    api("POST", f"/actions/{card.pk}/comments", {"path": "../new.py", "line": 2, "text": "No."}, expect=201)
    wish = {"verdict": "deny", "digest": card.digest, "comments": True}
    denied = api("POST", f"/actions/{card.pk}/decision", wish)
    assert denied["decision"]["comment"] == "../new.py:2: No.\n> b = 2"
    [comment] = api("GET", f"/actions/{card.pk}/comments")["comments"]
    assert (comment["denied_action"], comment["state"]) == (str(card.pk), "sent")
    assert api("POST", f"/actions/{card.pk}/decision", wish | {"verdict": "approve"}, expect=422)


def test_a_long_line_is_kept_short(workspace, bob, tmp_path):
    put(workspace, tmp_path, 2, "x" * 3000 + "\n")
    from workspaces.changes.comparisons import compare, find_point

    caller = caller_of(bob)
    comparison = compare(*(find_point(point, workspace, caller) for point in ("1", "2")))
    wish = {"side": "new", "line": 1, "end_line": 1, "text": "Long."}
    made = drafts.on_changes(workspace, comparison, b"app.py", b"", ("1", "2"), caller=caller, **wish)
    assert made.quote == "x" * 500

"""A card says each thing once: the command with its numbers, what is at stake, and what was approved before."""

import re
from datetime import timedelta
from html import unescape

import pytest

from approvals.models import Action
from approvals.pages.call_parts import parts_of
from approvals.pages.row_part import MAX_WHOLE
from dashboard.database import clock

from .conftest import FORCE, PUSH, tight


def card(action) -> str:
    return f"/actions/{action.pk}/"


def chips(page: str) -> list[str]:
    head = page[page.index('class="card-chips"') : page.index('class="card-title"')]
    return [
        unescape(re.sub("<[^>]*>", "", chip)) for chip in re.findall(r'<span class="chip.*?</span>', head, re.DOTALL)
    ]


def test_a_command_stands_once_with_the_numbers_of_its_parts(ask, bob, browser_of, read, workspace):
    action = ask({"command": "npm test && rm -rf build && git push origin main"}, workspace=workspace)
    page = tight(read(browser_of(bob), card(action)))
    shown = page[page.index('id="card"') : page.index("<summary>More</summary>")]
    assert re.findall(r'class="part-mark" data-n="(\d)"', shown) == ["1", "2", "3"]
    assert shown.count("rm -rf build") == 1
    assert "Needs approval: part 3 pushes to main on origin." in shown


@pytest.mark.parametrize(
    ("command", "steps", "cut"),
    [
        ("a && b", ["a", "b"], ["a && ", "b"]),
        ("FOO=1 ; ls\nrm x", ["ls", "rm x"], ["FOO=1 ; ", "ls\n", "rm x"]),
        ("false; ls", ["false", "ls"], ["false; ", "ls"]),
        ("echo $(rm x)", ["echo $(rm x)", "rm x"], ["echo $(", "rm x)"]),
        ("lsb; x", ["ls", "x"], []),
        ("a", ["a"], []),
        ("b; a", ["a", "b"], []),
        ("echo \u202e && rm x", ["echo \u202e", "rm x"], ["echo \u202e && ", "rm x"]),
    ],
)
def test_a_command_is_cut_only_where_each_part_begins(command, steps, cut):
    parts = parts_of(command, [{"text": text, "tier": "high"} for text in steps])
    assert [part.text for part in parts] == cut
    assert not cut or "".join(part.text for part in parts) == command


def test_the_numbers_add_nothing_to_the_bytes_that_are_shown(ask, bob, browser_of, workspace):
    command = 'echo "<i>\u200b</i>" && git push origin main'
    page = browser_of(bob).get(card(ask({"command": command}, workspace=workspace))).content.decode()
    code = re.search(r'<pre><code class="exact">(.*?)</code></pre>', page, re.DOTALL)[1]
    assert code.count("part-mark") == 2
    shown = re.sub(r'<span class="mark" data-bytes="e2808b">U\+200B</span>', "\u200b", code)
    assert unescape(re.sub(r"<span[^>]*></span>", "", shown)) == command


@pytest.mark.parametrize(
    ("tool", "arguments", "stake"),
    [
        ("mcp__stripe__create_refund", {"charge": "ch_1", "amount": 100, "currency": "EUR"}, ["Moves money"]),
        ("Bash", {"command": 'psql -c "DELETE FROM orders WHERE id = 3"'}, ["Changes shared data"]),
        ("Bash", {"command": "npm install lodash"}, ["Installs software"]),
        ("Bash", PUSH, ["Reaches outside"]),
        ("mcp__stripe__list_refunds", {}, []),
        ("Bash", FORCE, ["Critical: takes 2 people"]),
    ],
)
def test_what_is_at_stake_stands_on_the_card(ask, bob, browser_of, workspace, tool, arguments, stake):
    action = ask(arguments, tool=tool, workspace=workspace)
    assert chips(browser_of(bob).get(card(action)).content.decode())[1:] == stake


@pytest.mark.parametrize(
    ("path", "cwd", "chip"),
    [
        ("/home/mia/shop/a.py", "/home/mia/shop", "No snapshot of it"),
        ("/home/mia/shop/../b.py", "/home/mia/shop", "Can't be undone"),
        ("/home/mia/shop/.git/hooks/post-commit", "/home/mia/shop", "Can't be undone"),
        ("/etc/passwd", "/home/mia/shop", "Can't be undone"),
        ("~/.bashrc", "/home/mia/shop", "Can't be undone"),
    ],
)
def test_an_edit_outside_any_workspace_is_not_called_final_in_the_agents_own_folder(
    ask, bob, browser_of, path, cwd, chip
):
    action = ask({"file_path": path, "content": "x"}, tool="Write", cwd=cwd)
    assert chips(browser_of(bob).get(card(action)).content.decode())[0] == chip
    assert action.undo == "no"


def test_a_card_says_how_often_the_same_was_approved(ask, decide, bob, browser_of, read, workspace):
    action = ask(PUSH, workspace=workspace)
    assert "approved before" not in read(browser_of(bob), card(action)).lower()
    decide(action, by=bob)
    Action.objects.filter(pk=action.pk).update(created_at=clock.now() - timedelta(days=1))
    again = ask(PUSH, workspace=workspace, session="later")
    assert "Approved 1 time before," in read(browser_of(bob), card(again))
    other = ask(PUSH)
    assert "time before," not in read(browser_of(bob), card(other))


def test_the_calls_before_it_are_those_of_its_session(ask, bob, browser_of, read, workspace):
    for number in range(4):
        ask({"command": f"ls folder-{number}"}, workspace=workspace, session="one")
    ask({"command": "ls elsewhere"}, workspace=workspace, session="two")
    page = read(browser_of(bob), card(ask(PUSH, workspace=workspace, session="one")))
    assert "Before this: 3 calls" in page
    before = page[page.index("Before this: 3 calls") : page.index("<dt>Digest</dt>")]
    assert before.count("<li>") == 3
    assert "Before this" not in read(browser_of(bob), card(ask(PUSH, workspace=workspace)))


def test_a_reversible_call_that_its_row_shows_whole_is_approved_on_the_list(ask, bob, vera, browser_of, workspace):
    action = ask({"task": "x", "command": "pwd"}, tool="Odd", workspace=workspace)
    Action.objects.filter(pk=action.pk).update(undo="yes")
    build = ask({"command": "make install"}, workspace=workspace)
    hidden = ask({"command": "make \u200b"}, workspace=workspace)  # a mark takes more room than its character
    Action.objects.filter(pk__in=[build.pk, hidden.pk]).update(undo="yes")
    push = ask(PUSH, workspace=workspace)
    page = browser_of(bob).get("/waiting/").content.decode()
    offered = [each for each in (action, build, hidden, push) if f"/actions/{each.pk}/approve/" in page]
    assert offered == [build]
    assert "/approve/" not in browser_of(vera).get("/waiting/").content.decode()
    response = browser_of(bob).post(f"/actions/{build.pk}/approve/", {"digest": build.digest, "from": "list"})
    assert response.headers["Location"] == "/waiting/"
    assert Action.objects.get(pk=build.pk).status == "approved"


def test_a_call_too_long_for_its_row_is_approved_on_its_card(ask, bob, browser_of, workspace):
    long = ask({"command": "make " + "x" * MAX_WHOLE}, workspace=workspace)
    Action.objects.filter(pk=long.pk).update(undo="yes")
    client = browser_of(bob)
    assert f"/actions/{long.pk}/approve/" not in client.get("/waiting/").content.decode()


def test_a_long_call_has_a_way_to_its_end(ask, bob, browser_of, workspace):
    command = "git push origin main\n" + "echo line\n" * 100
    page = browser_of(bob).get(card(ask({"command": command}, workspace=workspace))).content.decode()
    end = re.search(r'href="#(end-\d+)"', page)[1]
    assert page.count(f'id="{end}"') == 1

"""Pages of terminals: the list, one of them, its recording; who may open one."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.models import Event
from tests.support.waiting import until
from tests.workspaces.terminals.conftest import ended, make_row
from workspaces.models import Operation, Terminal
from workspaces.programs import terminals

HERE = "/w/payments/repo/terminals/"


def body(response) -> bytes:
    return b"".join(response.streaming_content)


def printed(terminal) -> bytes:
    return b"".join(terminals.log_of(terminal))


def test_a_lead_opens_a_shell(in_team, lena, browser_of):
    answer = browser_of(lena).post(f"{HERE}open/", {"command": ""})
    made = Terminal.objects.get()
    assert answer.headers["Location"] == f"{HERE}{made.pk}/"
    assert made.argv == ["bash", "-l"]
    assert made.opened_by["label"] == "lena"
    assert Event.objects.filter(verb="terminal.opened").count() == 1


def test_a_lead_opens_an_agent(in_team, lena, browser_of):
    browser_of(lena).post(f"{HERE}open/", {"command": "claude --continue"})
    made = Terminal.objects.get()
    assert made.argv == ["bash", "-lc", "claude --continue"]
    assert terminals.name_of(made) == "claude --continue"


@pytest.mark.parametrize("person", ["vera", "bob"])
def test_a_viewer_cannot_open_a_terminal(in_team, browser_of, request, person):
    client = browser_of(request.getfixturevalue(person))
    assert client.post(f"{HERE}open/", {"command": "sh"}).status_code == 403
    assert b"Open a terminal" not in client.get(HERE).content
    assert (Terminal.objects.count(), Operation.objects.count()) == (0, 0)


def test_strangers_find_no_terminal(hosted, browser_of, mallory):
    terminal = hosted("echo secret; sleep 60")
    for part in ("", "recording/", "cast/", "log/"):
        assert browser_of(mallory).get(f"{HERE}{terminal.pk}/{part}").status_code == 404
    assert browser_of(mallory).post(f"{HERE}open/").status_code == 404


def test_a_terminal_of_another_workspace_is_not_here(hosted, in_team, browser_of, lena):
    terminal = hosted("sleep 60")
    type(in_team).objects.create(team=in_team.team, key="else", environment=in_team.environment, uid=400_001)
    assert browser_of(lena).get(f"/w/payments/else/terminals/{terminal.pk}/").status_code == 404


def test_the_page_says_who_may_type_and_only_it_lets_styles_in(hosted, browser_of, lena, vera):
    address = f"{HERE}{hosted('sleep 60').pk}/"
    typing, reading = browser_of(lena).get(address), browser_of(vera).get(address)
    assert (b"data-read-only" in typing.content, b"data-read-only" in reading.content) == (False, True)
    assert (b'id="terminal-keys"' in typing.content, b'id="terminal-keys"' in reading.content) == (True, False)
    policy = typing.headers["Content-Security-Policy"]
    assert "style-src 'self' 'unsafe-inline'" in policy
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "unsafe" not in scripts
    assert "unsafe" not in browser_of(lena).get(HERE).headers["Content-Security-Policy"]


def test_a_name_that_hides_something_shows_it(hosted, in_team, browser_of, lena):
    terminal = make_row(in_team, "echo a\u202eb\x1b]0;evil\x07<script>alert(1)</script>")
    for address in (HERE, f"{HERE}{terminal.pk}/"):
        page = browser_of(lena).get(address).content.decode()
        assert "U+202E" in page
        assert "U+001B" in page or "ESC" in page
        assert "<script>alert" not in page
        assert "\u202e" not in page


def test_the_list_says_what_lives_and_how_the_rest_ended(hosted, browser_of, lena):
    done, failed, live = hosted("true"), hosted("exit 3"), hosted("sleep 60")
    ended(done)
    ended(failed)
    page = browser_of(lena).get(HERE).content.decode()
    assert [words in page for words in ("Exited (0).", "Exited (3).", "Live")] == [True] * 3
    assert f'href="{HERE}{live.pk}/"' in page
    assert f'href="{HERE}{done.pk}/recording/"' in page


def test_the_list_costs_the_same_for_one_and_for_three(in_team, hosted, browser_of, lena):
    client = browser_of(lena)

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(HERE)
        return len(seen)

    ended(hosted("true"))
    queries()  # the first page of a session writes the session down
    one = queries()
    ended(hosted("exit 3"))
    ended(hosted("kill -9 $$"))
    assert queries() == one


def test_a_recording_is_an_asciicast(hosted, browser_of, vera):
    terminal = ended(hosted("printf 'one\\n'; sleep 0.2; printf 'zw\\303\\266lf\\n'", cols=100, rows=30))
    answer = browser_of(vera).get(f"{HERE}{terminal.pk}/cast/")
    header, *events = [json.loads(line) for line in body(answer).decode().splitlines()]
    assert answer.headers["Content-Type"] == "application/x-asciicast"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="repo-{str(terminal.pk)[:8]}.cast"'
    assert (header["version"], header["timestamp"]) == (2, int(terminal.created_at.timestamp()))
    assert header["command"] == "printf 'one\\n'; sleep 0.2; printf 'zw\\303\\266lf\\n'"
    assert events[0] == [events[0][0], "r", "100x30"]
    assert "".join(text for _at, kind, text in events if kind == "o") == "one\r\nzwölf\r\n"
    times = [at for at, _kind, _text in events]
    assert times == sorted(times)


def test_the_log_is_what_was_printed_byte_by_byte(hosted, browser_of, vera):
    terminal = ended(hosted("printf '\\377\\033]52;c;aGk=\\007\\000'"))
    answer = browser_of(vera).get(f"{HERE}{terminal.pk}/log/")
    assert body(answer) == b"\xff\x1b]52;c;aGk=\x07\x00"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_what_was_not_kept_is_marked_in_both(hosted, browser_of, vera):
    terminal = ended(hosted("seq 1 200000", cap_bytes=1 << 18))
    whole = "".join(f"{number}\r\n" for number in range(1, 200_001)).encode()
    assert (terminal.exit_status, terminal.bytes) == (0, len(whole))  # else it was ended early
    log = body(browser_of(vera).get(f"{HERE}{terminal.pk}/log/"))
    head, words, tail = log.partition(b" bytes were not kept]\r\n")
    head, _, count = head.rpartition(b"\r\n[")
    missing = int(count.replace(b",", b""))
    assert words
    assert whole.startswith(head)
    assert tail[-200:] == whole[-200:]
    assert whole.endswith(tail)
    assert len(head) + missing + len(tail) == len(whole)
    cast = body(browser_of(vera).get(f"{HERE}{terminal.pk}/cast/")).decode()
    marks = [event for event in map(json.loads, cast.splitlines()) if isinstance(event, list) and event[1] == "m"]
    assert [text for _at, _kind, text in marks] == [f"{missing:,} bytes were not kept"]


def test_the_recording_of_a_live_one_goes_as_far_as_it_went(hosted, browser_of, vera):
    terminal = hosted("echo so far; sleep 60")
    until(lambda: printed(terminal) == b"so far\r\n")
    assert body(browser_of(vera).get(f"{HERE}{terminal.pk}/log/")) == b"so far\r\n"
    assert b"Live terminal" in browser_of(vera).get(f"{HERE}{terminal.pk}/recording/").content


def test_a_terminal_that_never_started_says_so(in_team, browser_of, vera):
    terminal = make_row(in_team, "claude")
    reason = "repo sleeps."
    Operation.objects.filter(pk=terminal.operation_id).update(phase="settled", outcome={"ok": False, "reason": reason})
    assert reason in browser_of(vera).get(HERE).content.decode()
    assert body(browser_of(vera).get(f"{HERE}{terminal.pk}/log/")) == b""
    assert len(body(browser_of(vera).get(f"{HERE}{terminal.pk}/cast/")).splitlines()) == 1

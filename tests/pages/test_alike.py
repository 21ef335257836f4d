"""Many requests that are alike are answered together: shown whole, exceptions ticked out, each bound to its digest."""

import re
import socket
import tempfile
from pathlib import Path

import pytest

from approvals.evidence import findings
from approvals.models import UNDO, Action, Decision
from approvals.pages import alike
from approvals.pages.alike import PROSPECTS, reach_of
from approvals.pages.alike_table import table_of
from approvals.pages.card import cards_of, for_rows
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.people.access import caller_of
from dashboard.people.tokens import make_token
from dashboard.text.labels import UNDO as CHIPS
from workspaces.operations import runner_client

from .conftest import FORCE, make_workspace


@pytest.fixture
def pushes(ask, workspace):
    """Five pushes of one agent, and something else."""
    found = [ask({"command": f"git push origin topic-{number}"}, workspace=workspace) for number in range(5)]
    ask({"command": "curl https://example.org/x"}, workspace=workspace)
    return found


@pytest.fixture(autouse=True)
def in_one_step(monkeypatch):
    """However slow this machine is; the tests of progress set their own."""
    monkeypatch.setattr(alike, "STEP_SECONDS", 3600)


def address(action) -> str:
    return f"/waiting/alike/{action.pk}/"


def picked(*actions) -> dict:
    return {"action": [f"{action.pk}:{action.digest}" for action in actions]}


def statuses(actions) -> list[str]:
    return [Action.objects.get(pk=action.pk).status for action in actions]


def test_approvals_shows_the_group_as_one_row(pushes, bob, browser_of, read):
    text = read(browser_of(bob), "/waiting/")
    [row] = rows(text)
    assert "5 × git push" in row
    assert f'href="{address(pushes[0])}table/"' in row
    assert f'href="{address(pushes[0])}"' in row
    assert not any(f'id="action-{action.pk}"' in text for action in pushes)
    assert "curl https://example.org/x" in text


def rows(text: str) -> list[str]:
    """The rows of the list that stand for several requests."""
    return re.findall(r'<li class="row asked group".*?</li>', text, re.DOTALL)


def test_two_are_no_group(ask, bob, browser_of, read):
    for number in range(2):
        ask({"command": f"git push origin topic-{number}"})
    assert rows(read(browser_of(bob), "/waiting/")) == []


def test_the_group_shows_each_call_whole_and_ticked(pushes, bob, browser_of, read):
    text = read(browser_of(bob), address(pushes[2]))
    assert "5 × git push" in text
    for action in pushes:
        assert f"git push origin topic-{pushes.index(action)}" in text
        assert f'value="{action.pk}:{action.digest}" checked' in re.sub(r"\s+", " ", text)
    assert "curl" not in text


def test_an_exception_is_ticked_out_and_the_rest_is_approved_after_a_confirmation(pushes, bob, browser_of):
    client, wanted = browser_of(bob), picked(*pushes[:2], *pushes[3:])
    asked = client.post(address(pushes[0]), wanted | {"step": "approve"}).content.decode()
    assert "Approve 4" in re.sub(r"\s+", " ", asked)
    assert "in repo-task-1" in asked
    assert "4 of them can&#x27;t be undone" in asked
    assert "1 keeps waiting" in re.sub(r"\s+", " ", asked)
    assert set(statuses(pushes)) == {"pending"}
    client.post(address(pushes[0]), wanted | {"verdict": "approve"})
    assert statuses(pushes) == ["approved", "approved", "pending", "approved", "approved"]
    assert Decision.objects.filter(user=bob, verdict="approve").count() == 4


def test_a_denial_tells_all_of_them_the_same(pushes, bob, browser_of):
    client = browser_of(bob)
    client.post(address(pushes[0]), picked(*pushes) | {"verdict": "deny", "comment": "Open pull requests instead."})
    assert set(statuses(pushes)) == {"denied"}
    assert set(Decision.objects.values_list("comment", flat=True)) == {"Open pull requests instead."}


def test_cards_answered_or_changed_meanwhile_are_left_and_named(pushes, decide, alice, bob, browser_of):
    client, stale = browser_of(bob), picked(*pushes)
    decide(pushes[0], "deny", by=alice)
    stale["action"][1] = f"{pushes[1].pk}:{'0' * 64}"
    shown = client.post(address(pushes[0]), stale | {"verdict": "approve"}, follow=True).content.decode()
    assert statuses(pushes) == ["denied", "pending", "approved", "approved", "approved"]
    assert "Approved: 3 requests ·" in shown
    assert "2 had changed or ended meanwhile. They were not answered." in shown


@pytest.fixture
def silent_runner(settings):
    """A runner that takes every question and never answers, as one whose disk hangs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        settings.HANDRAIL_RUNTIME = Path(folder)
        listening.bind(runner_client.socket_path())
        listening.listen(200)
        yield


def sent_next(text: str) -> dict:
    """What the page sends by itself to go on."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text)
    return {name: [value for each, value in found if each == name] for name, _ in found}


def test_many_are_answered_within_one_limit_for_evidence_while_the_page_says_how_far_it_is(
    ask, workspace, bob, browser_of, silent_runner, monkeypatch
):
    monkeypatch.setattr(alike, "EVIDENCE_SECONDS", 1)
    monkeypatch.setattr(alike, "STEP_SECONDS", 0)  # one in each step
    asked = [ask({"command": f"git push origin topic-{number}"}, workspace=workspace) for number in range(8)]
    limits = []
    real = findings.TimeLimit.__init__
    monkeypatch.setattr(findings.TimeLimit, "__init__", lambda self, s: (limits.append(s), real(self, s))[1])
    client, steps = browser_of(bob), []
    shown = client.post(address(asked[0]), picked(*asked) | {"verdict": "approve"})
    assert "alike-progress" in shown.content.decode()
    while shown.status_code == 200:
        text = re.sub(r"\s+", " ", shown.content.decode())
        steps.append(int(re.search(r'role="status"> Approved: (\d+) of 8', text).group(1)))
        assert Decision.objects.filter(user=bob, verdict="approve").count() == steps[-1]
        sent = sent_next(text)
        assert int(sent["left_ms"][0]) <= 1000
        shown = client.post(address(asked[0]), sent, headers={"HX-Request": "true"})
    assert steps == list(range(1, 8))
    assert (shown.status_code, shown.headers["HX-Redirect"]) == (204, "/waiting/")
    assert "Approved: 8 requests ·" in client.get("/waiting/").content.decode()
    assert (len(limits), sum(limits) <= 2) == (8, True)  # what is left of one second, for fewer and fewer


def test_the_count_at_the_end_is_of_what_is_in_the_database(pushes, decide, alice, bob, browser_of, monkeypatch):
    monkeypatch.setattr(alike, "STEP_SECONDS", 0)
    client = browser_of(bob)
    text = client.post(address(pushes[0]), picked(*pushes) | {"verdict": "deny", "comment": "No."}).content.decode()
    for action in pushes[1:]:  # somebody else was faster with the rest
        decide(action, "approve", by=alice)
    client.post(address(pushes[0]), sent_next(re.sub(r"\s+", " ", text)))
    text = client.get("/waiting/").content.decode()
    assert "Denied: 1 request ·" in text
    assert "4 had changed or ended meanwhile. They were not answered." in text
    assert statuses(pushes) == ["denied", *["approved"] * 4]


def test_a_second_click_that_came_too_late_for_some_counts_none_as_changed(pushes, bob, browser_of):
    client = browser_of(bob)
    late = {"said": "2"}  # the other request was faster with two of them
    text = client.post(address(pushes[0]), picked(*pushes) | late | {"verdict": "deny"}, follow=True).content.decode()
    assert "Denied: 5 requests ·" in text
    assert "had changed or ended meanwhile" not in text


def test_nothing_ticked_answers_nothing(pushes, bob, browser_of):
    shown = browser_of(bob).post(address(pushes[0]), {"step": "approve"}).content.decode()
    assert "Tick at least one request." in shown
    assert "Confirm: approve" not in shown
    assert set(statuses(pushes)) == {"pending"}


def test_a_call_that_is_too_long_to_show_is_decided_on_its_card(ask, bob, browser_of, read):
    short = [ask({"command": f"git push origin topic-{number}"}) for number in range(3)]
    long = ask({"command": "git push origin " + "x" * 3000})
    client = browser_of(bob)
    text = re.sub(r"\s+", " ", read(client, address(short[0])))
    assert f'value="{long.pk}:{long.digest}" disabled' in text
    assert "x" * 3000 not in text
    client.post(address(short[0]), picked(*short, long) | {"verdict": "approve"})
    assert statuses([*short, long]) == ["approved", "approved", "approved", "pending"]


def test_what_needs_two_people_is_in_no_group(ask, bob, browser_of, read):
    critical = [ask(FORCE | {"command": f"{FORCE['command']} && echo {number}"}) for number in range(4)]
    assert rows(read(browser_of(bob), "/waiting/")) == []
    browser_of(bob).post(address(critical[0]), picked(*critical) | {"verdict": "approve"})
    assert set(statuses(critical)) == {"pending"}


def test_another_agents_requests_and_other_folders_are_not_alike(ask, pushes, team, bob, browser_of, read, other_agent):
    theirs = [ask({"command": f"git push origin z{n}"}, token=other_agent) for n in range(3)]
    for number in range(3):
        ask({"file_path": f"docs/{number}.md", "content": "x"}, tool="Write")
        ask({"file_path": f"src/{number}.md", "content": "x"}, tool="Write")
    found = rows(read(browser_of(bob), "/waiting/"))
    assert [re.search(r"(\d+ × [^<]*)</b>", row)[1] for row in found] == [
        "5 × git push",
        "3 × git push",
        "3 × Write in docs/",
        "3 × Write in src/",
    ]
    assert "git push origin z0" not in read(browser_of(bob), address(pushes[0]))
    browser_of(bob).post(address(pushes[0]), picked(*pushes, *theirs) | {"verdict": "approve"})
    assert set(statuses(theirs)) == {"pending"}


@pytest.fixture
def other_agent(team):
    agent = Agent.objects.create(team=team, name="codex-2")
    return make_token(team, agent=agent)


def test_a_person_who_may_not_decide_is_offered_nothing(pushes, vera, mallory, browser_of, read):
    client = browser_of(vera)
    [row] = rows(read(client, "/waiting/"))
    assert f'href="{address(pushes[0])}"' not in row
    assert "git push origin topic-4" in read(client, f"{address(pushes[0])}table/")
    browser_of(vera).post(address(pushes[0]), picked(*pushes) | {"verdict": "approve"})
    assert browser_of(mallory).get(address(pushes[0])).status_code == 404
    assert browser_of(mallory).post(address(pushes[0]), picked(*pushes) | {"verdict": "approve"}).status_code == 404
    assert set(statuses(pushes)) == {"pending"}


def test_hidden_characters_of_a_call_are_shown(ask, team, agent, bob, browser_of, read):
    workspace = make_workspace(team, agent, "repo-task-9")
    found = [ask({"command": f"git push origin a\u202eb{n}"}, workspace=workspace) for n in range(3)]
    text = read(browser_of(bob), address(found[0]))
    assert "\u202e" not in text


@pytest.mark.parametrize("undo", UNDO)
def test_each_prospect_of_an_undo_is_counted_by_its_own_sentence(ask, bob, undo):
    """Nothing that is unknown counts as reversible, and no value of undo is left without a sentence."""
    actions = [ask({"command": f"git push origin topic-{number}"}) for number in range(3)]
    for action, known in zip(actions, (undo, undo, "yes" if undo != "yes" else "no"), strict=True):
        Action.objects.filter(pk=action.pk).update(undo=known)
    cards = cards_of(for_rows(Action.objects.order_by("number")), caller_of(bob), clock.now())
    said = reach_of(cards)
    assert PROSPECTS[undo] % {"count": 2} in said
    assert (
        len(
            [
                words
                for words in said
                if words in {str(each) % {"count": n} for each in PROSPECTS.values() for n in (1, 2, 3)}
            ]
        )
        == 2
    )
    assert len(set(map(str, PROSPECTS.values()))) == len(PROSPECTS)


def test_every_chip_about_undo_has_a_sentence_for_groups():
    assert set(PROSPECTS) == set(CHIPS) >= set(UNDO)


def test_a_group_of_calls_with_an_unknown_undo_says_so(ask, bob, browser_of, read):
    found = [ask({"id": number}, tool="mcp__crm__update_contact") for number in range(3)]
    client = browser_of(bob)
    asked = client.post(address(found[0]), picked(*found) | {"step": "approve"}).content.decode()
    assert "unknown if 3 of them can be undone" in asked
    assert "can be undone in part" not in asked
    assert "unknown if 3 of them can be undone" in read(client, address(found[0]))


UNLIKE = {
    "statements": ["psql -c 'DROP TABLE users'", "psql -c 'UPDATE users SET a=1 WHERE id=1'", "psql -c 'select 1'"],
    "tables": ["psql -c 'DROP TABLE users'", "psql -c 'DROP TABLE orders'", "psql -c 'DROP TABLE logs_2020'"],
    "numbered tables": [f"psql -c 'DROP TABLE t{number}'" for number in range(3)],
    "statements on standard input": [
        f"psql <<SQL\n{verb};\nSQL" for verb in ("DROP TABLE a", "SELECT 1", "DELETE FROM a")
    ],
    "hosts": [f"curl https://{host}/x" for host in ("a.example", "b.example", "c.example")],
    "numbered hosts": [f"curl https://web-{number}.example/x" for number in range(3)],
    "hosts without a dot": [f"ssh web-{number} uptime" for number in range(3)],
    "addresses": [f"curl http://198.51.100.{number}/x" for number in range(3)],
    "ports": [f"curl http://a.example:{port}/x" for port in (80, 8080, 9090)],
    "methods": [f"curl -X {verb} https://a.example/x" for verb in ("POST", "DELETE", "PUT")],
    "scripts": ["bash i.sh", "bash <(curl https://a.example/i.sh)", "bash -s stable"],
    "options": ["git push origin main", "git push --no-verify origin main", "git push origin other"],
    "objects": [f"kubectl delete {what}" for what in ("ns prod", "pod a", "deployment a")],
}
UNLIKE_ARGUMENTS = {
    "currencies": [
        {"amount": 499, "currency": "eur"},
        {"amount": 1250000, "currency": "jpy"},
        {"amount": 5, "currency": "usd"},
    ],
    "names of amounts": [{"amount_eur": 1}, {"amount_jpy": 1}, {"amount_usd": 1}],
    "nested currencies": [{"amount": {"value": 1, "currency": code}} for code in ("EUR", "JPY", "USD")],
    "statements": [{"sql": "DROP TABLE a"}, {"sql": "SELECT 1"}, {"sql": "DELETE FROM a"}],
    "commands": [{"run": "rm -rf a"}, {"run": "ls"}, {"run": "pwd"}],
    "receivers": [{"to": f"ada{number}@example.org"} for number in range(3)],
    "signs": [{"amount": 1}, {"amount": -1}, {"amount": 2}],
    "choices": [{"force": True}, {"force": False}, {"force": None}],
    "tables": [{"table": "t_1"}, {"table": "t_2"}, {"table": "t_3"}],
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_commands_that_differ_in_more_than_numbers_are_never_ticked_beforehand(ask, bob, browser_of, kind):
    actions = [ask({"command": command}) for command in UNLIKE[kind]]
    nothing_is_ticked(actions, browser_of(bob))
    assert rows(browser_of(bob).get("/waiting/").content.decode()) == []


@pytest.mark.parametrize("kind", UNLIKE_ARGUMENTS)
def test_calls_of_tools_that_differ_in_more_than_numbers_are_never_ticked_beforehand(ask, bob, browser_of, kind):
    actions = [ask(arguments, tool="mcp__stripe__create_refund") for arguments in UNLIKE_ARGUMENTS[kind]]
    nothing_is_ticked(actions, browser_of(bob))
    assert rows(browser_of(bob).get("/waiting/").content.decode()) == []


def nothing_is_ticked(actions, client):
    for action in actions:
        page = client.get(address(action))
        assert page.status_code == 302 or " checked" not in page.content.decode()


UPDATE = "psql -c 'UPDATE users SET a=1 WHERE id=7'"
ALIKE = [
    [("Bash", {"command": UPDATE.replace("7", f"{number}")}) for number in range(3)],
    [("Bash", {"command": f"curl https://api.example/v1/items/{number}"}) for number in range(3)],
    [("mcp__crm__update_contact", {"id": number, "tags": [number]}) for number in range(3)],
    [("mcp__stripe__create_refund", {"amount": 100 + n, "currency": "eur", "charge": f"ch_{n}Nx"}) for n in range(3)],
]


@pytest.mark.parametrize("calls", ALIKE)
def test_calls_that_differ_in_numbers_are_alike_and_ticked(ask, bob, browser_of, calls):
    actions = [ask(arguments, tool=tool) for tool, arguments in calls]
    client = browser_of(bob)
    assert len(rows(client.get("/waiting/").content.decode())) == 1
    assert client.get(address(actions[0])).content.decode().count(" checked") == 3


BALANCE, VALUES = "UPDATE a SET balance = 7 WHERE id = 1", "INSERT INTO a VALUES (1, 7)"
AMOUNTS = {
    "a wire": ("mcp__bank__wire", [{"to_account": "DE1", "amount": n} for n in (10, 11, 999999)]),
    "a wire in text": ("mcp__bank__wire", [{"to_account": "DE1", "amount": n} for n in ("10", "11", "999999")]),
    "an amount of a tool that nobody knows": ("mcp__a__b", [{"betrag": n} for n in (10, 11, 999999)]),
    "a number without a known name": ("mcp__a__b", [{"x": n} for n in (1, 2, 3)]),
    "a nested amount": ("mcp__a__b", [{"order": {"lines": [{"price": n}]}} for n in (1, 2, 3)]),
    "a quantity": ("mcp__shop__order", [{"currency": "EUR", "amount": 5, "quantity": n} for n in (1, 2, 900)]),
    "two amounts": ("mcp__bank__pay", [{"currency": "EUR", "amount": n, "fee": 10 * n} for n in (1, 2, 3)]),
    "accounts": ("mcp__bank__pay", [{"currency": "EUR", "amount": 1, "account": n} for n in (1, 2, 3)]),
    "a balance in a statement": ("mcp__pg__query", [{"sql": BALANCE.replace("7", f"{n}")} for n in (1, 2, 3)]),
    "values of a statement": ("mcp__pg__query", [{"sql": VALUES.replace("7", f"{n}")} for n in (1, 2, 3)]),
    "an option": ("Bash", [{"command": f"stripe refunds create --charge ch --amount {n}"} for n in (1, 2, 999)]),
    "a body": ("Bash", [{"command": f"""curl -d '{{"amount": {n}}}' https://a.example/x"""} for n in (1, 2, 9)]),
    "a word": ("Bash", [{"command": f"acme transfer {n} shop"} for n in (10, 11, 999999)]),
    "a text": ("mcp__mail__send", [{"body": f"Pay {n} EUR"} for n in (10, 11, 999999)]),
}


@pytest.mark.parametrize("kind", AMOUNTS)
def test_numbers_that_may_say_how_much_are_stated_and_never_ticked_beforehand(ask, bob, browser_of, kind):
    tool, calls = AMOUNTS[kind]
    actions = [ask(arguments, tool=tool) for arguments in calls]
    client = browser_of(bob)
    nothing_is_ticked(actions, client)
    page = re.sub(r"\s+", " ", client.get(address(actions[0])).content.decode())
    assert "different in " in page
    assert "These differ in numbers that may say how much" in page


def test_amounts_without_a_currency_have_their_sum_stated(ask, bob, browser_of):
    actions = [ask({"to_account": "DE1", "amount": n}, tool="mcp__bank__wire") for n in (10, 11, 999999)]
    client = browser_of(bob)
    page = client.get(address(actions[0])).content.decode()
    assert "1,000,020 in total (amount), in no stated currency" in page
    assert "different in amount 10, 11, 999999" in page
    confirmed = client.post(address(actions[0]), picked(*actions) | {"step": "approve"}).content.decode()
    assert "1,000,020 in total (amount), in no stated currency" in confirmed


def test_amounts_with_a_currency_are_ticked_under_their_sum_for_every_tool(ask, bob, browser_of):
    actions = [ask({"to_account": "DE1", "amount": n, "currency": "EUR"}, tool="mcp__bank__wire") for n in (10, 11, 99)]
    page = browser_of(bob).get(address(actions[0])).content.decode()
    assert page.count(" checked") == 3
    assert "120 EUR in total" in page
    assert "different in amount 10, 11, 99" in page


def test_three_alike_are_a_group_apart_from_those_that_differ(ask, bob, browser_of, read):
    eur = [ask({"amount": 100 + n, "currency": "eur"}, tool="mcp__stripe__create_refund") for n in range(3)]
    jpy = ask({"amount": 1250000, "currency": "jpy"}, tool="mcp__stripe__create_refund")
    client = browser_of(bob)
    text = read(client, address(eur[0]))
    assert str(jpy.pk) not in text
    assert "3.03 EUR in total" in text


def test_all_and_none_are_ticked_by_a_link(ask, pushes, bob, browser_of):
    client = browser_of(bob)
    assert client.get(f"{address(pushes[0])}?tick=none").content.decode().count(" checked") == 0
    different = [ask({"run": run}, tool="mcp__a__b") for run in ("rm -rf a", "ls", "pwd")]
    page = client.get(f"{address(different[0])}?tick=all").content.decode()
    assert page.count(" checked") == 3
    assert "These differ in more than numbers" in re.sub(r"\s+", " ", page)


def crm(ask, count: int, **same) -> list:
    names = ["Ada", "Bo", "Cy", "Di", "Eve", "Flo"]
    return [ask({"id": 7 + n, "name": names[n]} | same, tool="mcp__crm__update_contact") for n in range(count)]


def test_many_changes_of_one_kind_of_thing_are_one_row_and_nothing_is_ticked(ask, bob, browser_of, read):
    actions = crm(ask, 5, city="Ulm")
    client = browser_of(bob)
    [row] = rows(read(client, "/waiting/"))
    assert "5 contact changes (crm)" in row
    table = read(client, f"{address(actions[0])}table/")
    assert "<b>city</b> <code>Ulm</code>" in table
    assert [head.strip() for head in re.findall(r'<th scope="col">(.*?)</th>', table)] == ["Request", "id", "name"]
    assert all(f">A-{action.number}</a>" in table for action in actions)
    assert [cell for cell in ("Ada", "Eve", "7", "11") if f"<code>{cell}</code>" not in table] == []
    nothing_is_ticked(actions, client)


def test_four_changes_of_one_kind_of_thing_are_four_rows(ask, bob, browser_of, read):
    crm(ask, 4)
    assert rows(read(browser_of(bob), "/waiting/")) == []


@pytest.mark.parametrize("odd", [{"more": "x"}, {"force": True}, {"table": "t"}, {"currency": "JPY"}])
def test_a_change_with_other_names_or_places_is_a_row_of_its_own(ask, bob, browser_of, read, odd):
    places = {"force": False, "table": "s", "currency": "EUR"}
    crm(ask, 5, **places)
    other = ask({"id": 1, "name": "Gil"} | places | odd, tool="mcp__crm__update_contact")
    text = read(browser_of(bob), "/waiting/")
    assert "5 contact changes (crm)" in rows(text)[0]
    assert f'id="action-{other.pk}"' in text


def test_statements_are_no_row_together_however_many(ask, bob, browser_of, read):
    for word in ("users", "orders", "carts", "bills", "mails", "notes"):
        ask({"sql": f"DROP TABLE {word}"}, tool="mcp__pg__update_schema")
    assert rows(read(browser_of(bob), "/waiting/")) == []


def test_the_row_and_its_table_say_the_sum_for_each_currency(ask, bob, browser_of, read):
    money = [("eur", 1290), ("eur", 1291), ("eur", 1292)]
    asked = [
        ask({"charge": f"ch_{n}Pq", "amount": amount, "currency": currency}, tool="mcp__stripe__create_refund")
        for n, (currency, amount) in enumerate(money)
    ]
    client = browser_of(bob)
    [row] = rows(read(client, "/waiting/"))
    assert "3 refunds (stripe)" in row
    assert "38.73 EUR in total" in row
    assert "38.73 EUR in total" in read(client, f"{address(asked[0])}table/")


def test_a_value_that_a_call_does_not_have_and_one_of_another_type_are_said_so(ask, bob, browser_of):
    actions = [ask({"id": n, "note": note}, tool="mcp__crm__update_contact") for n, note in enumerate(["a", "1", ""])]
    actions.append(ask({"id": 3}, tool="mcp__crm__update_contact"))
    cards = cards_of(for_rows(Action.objects.order_by("number")), caller_of(bob), clock.now())
    table = table_of(cards)
    assert (table.same, table.columns) == ([], ["id", "note"])
    assert [cells[1].text for _, cells in table.rows] == ["a", '"1"', '""', None]


def test_the_table_of_what_is_gone_says_so(pushes, decide, bob, browser_of, read):
    for action in pushes:
        decide(action, "deny", by=bob)
    assert "None of these waits any more." in read(browser_of(bob), f"{address(pushes[0])}table/")


def test_another_team_sees_no_table(pushes, mallory, browser_of):
    assert browser_of(mallory).get(f"{address(pushes[0])}table/").status_code == 404

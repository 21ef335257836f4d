"""The Measures page, its CSV, the API and the metrics; caps that warn and stop; prices."""

import csv
import json
import re
from datetime import UTC, timedelta

import pytest

from approvals.evaluation import policies
from approvals.models import Action
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role
from dashboard.people.access import caller_of
from workspaces import lifecycle
from workspaces.egress.attempts import Attempt
from workspaces.models import Cap, EgressDay, Operation, Prices, Run, Runner, State, Workspace
from workspaces.provisioning.caps import month
from workspaces.services import caps, network

from .conftest import LIST, PUSH, make_workspace

HERE = "/measures/"


@pytest.fixture(autouse=True)
def middle_of_a_month(db):
    """All happens on one day, and in one month."""
    with clock.frozen_at(clock.now().replace(day=15, hour=12)):
        yield


@pytest.fixture
def used(workspace, ask, decide, bob):
    """A call that ran, one that Bob denied, three hours awake and two megabytes."""
    ask(LIST, workspace=workspace)
    decide(ask(PUSH, workspace=workspace), "deny", by=bob, comment="no")
    now = clock.now()
    runner = Runner.objects.create(host="here")
    for hours in (5, 2):
        begun = now - timedelta(hours=hours)
        Run.objects.create(
            workspace=workspace,
            runner=runner,
            started_at=begun,
            ready_at=begun + timedelta(seconds=3),
            ended_at=begun + timedelta(hours=1.5),
            setup_seconds=90 if hours == 5 else None,
        )
    EgressDay.objects.create(workspace=workspace, day=now.astimezone(UTC).date(), sent=1_500_000, received=500_000)
    return workspace


def figure(text: str, label: str) -> str:
    return re.search(rf"<dt>\s*{label}\s*</dt>\s*<dd>\s*<b class=\"figure\">([^<]*)</b>", text).group(1)


def test_the_page_has_each_figure_with_its_definition(used, lena, browser_of, read):
    text = read(browser_of(lena), HERE)
    assert figure(text, "Setup avoided") == "1.5"
    assert figure(text, "Resumes that worked") == "100 %"
    assert (figure(text, "Let run"), figure(text, "Asked"), figure(text, "Denied")) == ("1", "1", "1")
    assert figure(text, "Awake") == "3"
    assert figure(text, "Network") == "0.002"
    assert (
        text.count('<b class="figure">') == text.count('<p class="help">') - text.count('</h3>\n<p class="help">') - 3
    )
    assert "no rule of its own" in text or "<code>" in text


def test_a_chart_has_its_table(used, lena, browser_of, read):
    text = read(browser_of(lena), f"{HERE}?from=2026-01-01&to=2026-01-03")
    for name in ("calls", "awake", "egress"):
        assert f'data-chart="{name}-table"' in text
        assert f'<table id="{name}-table">' in text
    assert text.count(">2 Jan 2026<") == 3


def test_an_invalid_period_is_reported(team, lena, browser_of, read, token_of, api):
    for query in ("from=soon", "from=2026-02-01&to=2026-01-01", "from=1000-01-01&to=2026-01-01", "to=2026-13-01"):
        assert 'data-tone="amber"' in read(browser_of(lena), f"{HERE}?{query}")
        assert api(token_of(lena)).get(f"/api/v1/measures?{query}").status_code == 422
        assert browser_of(lena).get(f"{HERE}csv/?{query}").status_code == 422


def test_single_people_see_their_own_figures_alone(used, lena, bob, vera, browser_of, read):
    row = re.compile(r'<th scope="row">\s*bob\s*</th>')
    assert row.search(read(browser_of(lena), HERE))
    assert row.search(read(browser_of(bob), HERE))
    assert not row.search(read(browser_of(vera), HERE))


def test_the_csv_has_the_same_figures(used, lena, vera, browser_of):
    answer = browser_of(lena).get(f"{HERE}csv/")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    found = {(row["group"], row["name"], row["measure"]): row["value"] for row in rows}
    assert found["calls", "", "asked"] == "1"
    assert found["persistence", "", "setup_minutes_avoided"] == "1.5"
    assert found["latency by_person", "bob", "count"] == "1"
    assert "bob" not in browser_of(vera).get(f"{HERE}csv/").content.decode()


def test_an_action_has_the_rule_of_its_current_revision(ask, decide, bob, lena, team):
    policies.save('high = ["Bash(git push *)", "Bash(npm publish *)"]\n', caller=caller_of(lena), team=team)
    action = ask(PUSH)
    first = action.rule
    assert first == action.revisions.get().rule != ""
    decide(action, "edit", by=bob, arguments={"command": "npm publish left-pad"})
    action.refresh_from_db()
    assert action.revision == 2
    assert action.rule == action.revisions.get(number=2).rule != first


def test_a_name_in_the_csv_is_no_formula(used, lena, browser_of):
    Action.objects.update(rule="=1+1")
    rows = csv.DictReader(browser_of(lena).get(f"{HERE}csv/").content.decode().splitlines())
    assert {row["name"] for row in rows if row["group"] == "calls by_rule"} == {"'=1+1"}


def test_the_api_answers_people_of_the_team(used, lena, token_of, agent_token, api):
    found = api(token_of(lena)).get("/api/v1/measures").json()
    assert (found["team"], found["calls"]["asked"], found["awake"]["hours"]) == ("payments", 1, 3.0)
    assert len(found["days"]) == 30
    assert found["days"][-1]["day"] == found["to"]
    assert api(agent_token).get("/api/v1/measures").status_code == 403


@pytest.mark.parametrize("address", ["/metrics", "/api/v1/metrics"])
def test_prometheus_reads_the_metrics_of_a_leads_token(
    used, lena, alice, bob, token_of, agent_token, api, client, address
):
    Cap.objects.create(team=used.team, measure="awake_hours", limit=10)
    text = api(token_of(lena)).get(address).content.decode()
    for line in (
        'handrail_workspaces{state="ready",team="payments"} 1.0',
        'handrail_calls_month{outcome="denied",team="payments"} 1.0',
        'handrail_cap_limit{measure="awake_hours",team="payments"} 10.0',
        'handrail_egress_bytes_month{direction="sent",team="payments"} 1.5e+06',
        "# TYPE handrail_awake_hours_month gauge",
    ):
        assert line in text
    assert api(token_of(alice)).get(address).status_code == 200
    assert api(token_of(bob)).get(address).status_code == 403
    assert api(agent_token).get(address).status_code == 403
    assert client.get(address).status_code == 401


def test_the_dashboard_of_grafana_asks_for_metrics_that_exist(used, lena, token_of, api):
    from tests.support import CHECKOUT

    text = api(token_of(lena)).get("/metrics").content.decode()
    names = set(re.findall(r"^# TYPE (handrail_\w+) ", text, re.M))
    board = json.loads((CHECKOUT / "deploy/grafana/handrail.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"handrail_\w+", target["expr"])
    }
    assert asked
    assert asked <= names


def test_the_proxys_bytes_count_for_their_day(workspace):
    at = clock.now()
    for sent in (10, 5):
        attempt = Attempt(host="a.example", port=443, method="CONNECT", allowed=True, sent=sent, received=100)
        network.count(workspace.pk, "agent", attempt, 1, at)
    row = EgressDay.objects.get()
    assert (row.day, row.sent, row.received) == (at.astimezone(UTC).date(), 15, 200)


def test_an_agent_reports_tokens_with_an_outcome(workspace, ask, agent_token, bob, token_of, api):
    action = ask(LIST, workspace=workspace)
    address, body = f"/api/v1/actions/{action.pk}", {"content_type": "application/json"}
    client = api(agent_token)
    client.post(f"{address}/consume", json.dumps({"digest": action.digest}), **body)
    told = {"status": "succeeded", "usage": {"model": "m-1", "input_tokens": 1200, "output_tokens": 34}}
    assert client.post(f"{address}/outcome", json.dumps(told), **body).status_code == 200
    assert client.post(f"{address}/outcome", json.dumps(told), **body).status_code == 200
    wrong = {"status": "succeeded", "usage": {"input_tokens": -1}}
    assert client.post(f"{address}/outcome", json.dumps(wrong), **body).status_code == 422
    found = api(token_of(bob)).get("/api/v1/measures").json()["tokens"]
    assert found == {"input": 1200, "output": 34, "by_model": [{"model": "m-1", "input": 1200, "output": 34}]}
    assert Event.objects.get(verb="action.succeeded").data["usage"]["input_tokens"] == 1200


# Caps ----------------------------------------------------------------------------------------------------------------


def set_cap(client, amount, measure="awake_hours"):
    return client.post(f"{HERE}limits/", {"team": "payments", "measure": measure, "amount": amount})


@pytest.fixture
def asleep(team, agent, used):
    """A paused workspace, beside one that has been up since the month before."""
    Run.objects.all().delete()
    Run.objects.create(workspace=used, runner=Runner.objects.get(), started_at=clock.now() - timedelta(days=40))
    return make_workspace(team, agent, "asleep", State.PAUSED)


def test_a_cap_warns_stops_and_is_lifted(asleep, alice, lena, bob, browser_of, read):
    EgressDay.objects.update(sent=900_000, received=0)
    set_cap(browser_of(alice), "0.001", "egress_bytes")
    assert [event.verb for event in Event.objects.filter(verb__startswith="cap.").order_by("seq")] == [
        "cap.set",
        "cap.warned",
    ]
    assert "80 % of the limit of Payments is used: 0.001 GB over the network" in read(browser_of(bob), "/")
    lifecycle.resume(asleep, by=Actor.person(alice))
    Operation.objects.all().delete()
    EgressDay.objects.update(sent=1_000_000)
    caps.check_all()
    caps.check_all()
    assert Event.objects.filter(verb="cap.met").count() == 1
    assert "The limit of Payments is met: 0.001 GB over the network" in read(browser_of(bob), "/")
    client = browser_of(lena)
    client.post("/w/payments/asleep/resume/")
    assert "limit of 0.001 GB over the network a month is met, so no workspace starts." in read(
        client, "/w/payments/asleep/"
    )
    assert not Operation.objects.exists()
    client.post(f"{HERE}limits/lift/", {"team": "payments", "measure": "egress_bytes"})
    client.post("/w/payments/asleep/resume/")
    assert Operation.objects.get().kind == "resume"
    assert "The limit of Payments" not in read(browser_of(bob), "/")
    assert Event.objects.filter(verb="cap.lifted").count() == 1


def test_hours_awake_are_capped_for_new_forked_and_used_workspaces(asleep, alice, token_of, api, browser_of):
    Cap.objects.create(team=asleep.team, measure="awake_hours", limit=1)
    client, body = api(token_of(alice)), {"content_type": "application/json"}
    answers = [
        client.post("/api/v1/workspaces", json.dumps({"key": "new-one"}), **body),
        client.post("/api/v1/workspaces/asleep/resume", **body),
        client.post("/api/v1/workspaces/asleep/fork", json.dumps({"key": "forked"}), **body),
        client.post("/api/v1/workspaces/asleep/commands", json.dumps({"command": "ls"}), **body),
    ]
    assert [(answer.status_code, answer.json().get("code")) for answer in answers] == [(409, "cap_met")] * 4
    assert not Operation.objects.exists()


def test_a_cap_of_last_month_does_not_matter(asleep, alice, browser_of):
    EgressDay.objects.update(day=clock.now().astimezone(UTC).date().replace(day=1) - timedelta(days=1), sent=10**9)
    set_cap(browser_of(alice), "0.5", "egress_bytes")
    assert not Event.objects.filter(verb__in=["cap.met", "cap.warned"]).exists()
    assert lifecycle.resume(asleep, by=Actor.person(alice)).kind == "resume"


def test_a_cap_is_changed_and_removed(team, alice, browser_of, read):
    client = browser_of(alice)
    set_cap(client, "300")
    assert Cap.objects.get().limit == 300
    assert "Hours awake this month: 0 of 300 (0.0 %)" in read(client, HERE)
    Cap.objects.update(met_month=month(), warned_month=month())
    set_cap(client, "400")
    assert (Cap.objects.get().limit, Cap.objects.get().met_month) == (400, "")
    set_cap(client, "")
    assert not Cap.objects.exists()
    assert [event.verb for event in Event.objects.order_by("seq")] == ["cap.set", "cap.set", "cap.removed"]


@pytest.mark.parametrize("amount", ["0", "-3", "many", "1e400", "NaN", "Infinity"])
def test_a_limit_that_is_no_amount_is_refused(team, alice, browser_of, amount):
    set_cap(browser_of(alice), amount)
    set_cap(browser_of(alice), amount, "egress_bytes")
    set_cap(browser_of(alice), "3", "apples")
    assert (Cap.objects.count(), Event.objects.count()) == (0, 0)


def test_only_admins_set_and_leads_lift(team, alice, lena, bob, mallory, browser_of, read):
    Cap.objects.create(team=team, measure="awake_hours", limit=1)
    fields = {"team": "payments", "measure": "awake_hours", "amount": "5", "currency": "EUR"}
    for address, allowed in (("limits/", []), ("prices/", []), ("limits/lift/", [lena])):
        for person in (lena, bob):
            status = 302 if person in allowed else 403
            assert browser_of(person).post(f"{HERE}{address}", fields).status_code == status
        assert browser_of(mallory).post(f"{HERE}{address}", fields).status_code == 404
    assert Cap.objects.get().limit == 1
    assert "Save limit" not in read(browser_of(lena), HERE)


def test_prices_make_a_cost(used, alice, browser_of, read):
    client = browser_of(alice)
    fields = {"team": "payments", "currency": "usd", "awake_hour": "0,5", "egress_gb": "1000", "input_mtok": ""}
    client.post(f"{HERE}prices/", fields)
    assert Prices.objects.get().currency == "USD"
    assert figure(read(client, HERE), "Cost") == "3.50 USD"
    data = Event.objects.get(verb="team.prices_changed").data
    assert (data["awake_hour"], data["egress_gb"], data["output_mtok"]) == ("0.5", "1000", "0")
    for wrong in (
        {"awake_hour": "cheap"},
        {"currency": "E1"},
        {"egress_gb": "-1"},
        {"awake_hour": "0.00001"},
        {"awake_hour": "NaN"},
    ):
        client.post(f"{HERE}prices/", fields | wrong)
    assert str(Prices.objects.get().awake_hour) == "0.5000"
    assert Event.objects.filter(verb="team.prices_changed").count() == 1


def test_somebody_in_two_teams_chooses_one(used, other_team, lena, browser_of, read):
    Membership.objects.create(team=other_team, user=lena, role=Role.VIEWER)
    text = read(browser_of(lena), f"{HERE}?team=payments")
    assert '<option value="payments" selected>' in text
    assert figure(text, "Asked") == "1"
    assert figure(read(browser_of(lena), f"{HERE}?team=other"), "Asked") == "0"
    assert browser_of(lena).get(f"{HERE}?team=nobody").status_code == 404


def quota(team, measure, limit) -> Cap:
    return Cap.objects.create(team=team, measure=measure, limit=limit)


def test_a_quota_of_workspaces_refuses_what_adds_one_and_says_what_to_do(asleep, alice, token_of, api):
    """`used` and `asleep` count; an archived one and one in the trash do not until they come back."""
    agent, team = asleep.created_by_agent, asleep.team
    make_workspace(team, agent, "put-away", State.ARCHIVED)
    gone = make_workspace(team, agent, "gone", State.STOPPED, trashed_at=clock.now(), purge_at=clock.now())
    quota(team, "workspaces", 2)
    client, body = api(token_of(alice)), {"content_type": "application/json"}
    answers = [
        client.post("/api/v1/workspaces", json.dumps({"key": "new-one"}), **body),
        client.post("/api/v1/workspaces/asleep/fork", json.dumps({"key": "forked"}), **body),
        client.post("/api/v1/workspaces/put-away/resume", **body),
        client.post(f"/api/v1/workspaces/{gone.key}/untrash"),
    ]
    said = {(answer.status_code, answer.json()["code"], answer.json()["detail"]) for answer in answers}
    words = (
        "The team has 2 workspaces, and its limit is 2 workspaces. Archive or delete one, or ask a lead to lift the "
        "limit on the Measures page."
    )
    assert said == {(409, "cap_met", words)}
    assert not Operation.objects.exists()
    assert client.post("/api/v1/workspaces/asleep/resume", **body).status_code == 202  # it is counted already
    Cap.objects.update(limit=3)
    assert client.post("/api/v1/workspaces/put-away/resume", **body).status_code == 202


def test_a_quota_of_disk_counts_measured_files_and_refuses_each_start(asleep, used, alice, token_of, api):
    Workspace.objects.filter(pk=used.pk).update(vitals={"bytes": 7_000})
    assert caps.used(quota(asleep.team, "disk_bytes", 10_457)) == 7_000 + asleep.head.bytes == 10_456
    client, body = api(token_of(alice)), {"content_type": "application/json"}
    assert client.post("/api/v1/workspaces/asleep/resume", **body).status_code == 202
    Operation.objects.all().delete()
    Workspace.objects.filter(pk=used.pk).update(vitals={"bytes": 10**10})
    answer = client.post("/api/v1/workspaces/asleep/resume", **body).json()
    assert answer["detail"].startswith("The team has 10 GB on disk, and its limit is 0 GB on disk. Delete workspaces")
    Workspace.objects.filter(pk=used.pk).update(state=State.ARCHIVED)
    assert client.post("/api/v1/workspaces/asleep/resume", **body).status_code == 202


def test_a_quota_warns_at_80_percent_and_forgets_it_when_use_falls(team, agent, alice, browser_of, read):
    places = [make_workspace(team, agent, f"w-{number}", State.STOPPED).pk for number in range(4)]
    set_cap(browser_of(alice), "5", "workspaces")
    assert "80 % of the limit of Payments is used: 5 workspaces" in read(browser_of(alice), "/")
    assert "Workspaces now: 4 of 5 (80.0 %)" in read(browser_of(alice), HERE)
    Workspace.objects.filter(pk=places[0]).update(state=State.ARCHIVED)
    caps.check_all()
    assert "80 % of the limit" not in read(browser_of(alice), "/")
    verbs = Event.objects.filter(verb__startswith="cap.").order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["cap.set", "cap.warned"]


def test_limits_are_set_and_lifted_by_api(team, agent, alice, lena, bob, token_of, api, agent_token):
    make_workspace(team, agent, "one", State.STOPPED)
    admin, lead, reviewer = (api(token_of(person)) for person in (alice, lena, bob))
    at, body = "/api/v1/measures/limits", {"content_type": "application/json"}
    put = lambda who, measure, limit: who.put(f"{at}/{measure}", json.dumps({"limit": limit}), **body)  # noqa: E731
    assert [put(who, "workspaces", 1).status_code for who in (lead, reviewer, api(agent_token))] == [403] * 3
    told = put(admin, "workspaces", 1).json()["limits"]
    row = {"measure": "workspaces", "limit": 1, "used": 1, "share": 100.0, "is_met": True, "is_lifted": False}
    assert told == reviewer.get(at).json()["limits"] == [row]
    assert [put(admin, *wrong).status_code for wrong in (("apples", 1), ("workspaces", 0), ("workspaces", 10**16))] == [
        422
    ] * 3
    assert reviewer.post(f"{at}/workspaces/lift").status_code == 403
    assert lead.post(f"{at}/workspaces/lift").json()["limits"] == [row | {"is_lifted": True}]
    assert lead.post(f"{at}/disk_bytes/lift").status_code == 409
    assert put(admin, "workspaces", None).json() == {"limits": []}
    verbs = Event.objects.filter(verb__startswith="cap.").order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["cap.set", "cap.met", "cap.lifted", "cap.removed"]


def test_a_limit_is_set_changed_and_removed_in_the_admin(team, alice, admin_client):
    fields = {"team": team.pk, "measure": "disk_bytes", "limit": "5000000000"}
    admin_client.post("/admin/workspaces/cap/add/", fields)
    cap = Cap.objects.get()
    assert (cap.measure, cap.limit) == ("disk_bytes", 5 * 10**9)
    assert "5 GB on disk" in admin_client.get("/admin/workspaces/cap/").text
    admin_client.post(f"/admin/workspaces/cap/{cap.pk}/change/", {"limit": "0"})
    admin_client.post(f"/admin/workspaces/cap/{cap.pk}/change/", {"limit": "6000000000"})
    assert Cap.objects.get().limit == 6 * 10**9
    admin_client.post(f"/admin/workspaces/cap/{cap.pk}/delete/", {"post": "yes"})
    verbs = Event.objects.filter(verb__startswith="cap.").order_by("seq").values_list("verb", "actor_label")
    assert list(verbs) == [("cap.set", "admin"), ("cap.set", "admin"), ("cap.removed", "admin")]

"""Retention by API: the rules in force, changes that are confirmed by their preview, sweeps, holds, and who may."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from workspaces.models import Hold, Operation, RetentionRule, Snapshot
from workspaces.services import retention

AT = "/api/v1/retention"


@pytest.fixture
def old(workspace):
    """Two old snapshots between the first and the current one."""
    for number in (3, 4):
        Snapshot.objects.create(
            workspace=workspace,
            number=number,
            tree=bytes([number]) * 32,
            kind="action",
            entries=1,
            bytes=1,
            added_bytes=1,
            created_at=clock.now() - timedelta(days=300),
        )
    return workspace


@pytest.fixture
def admin(api, token_of, alice):
    return api(token_of(alice))


def send(client, method, path="", body=None):
    return getattr(client, method)(f"{AT}{path}", body or {}, content_type="application/json")


def test_the_rules_in_force_say_whose_they_are(admin, team):
    RetentionRule.objects.create(team=team, layer="home", days=7)
    told = admin.get(AT).json()
    sources = {rule["layer"]: (rule["source"], rule["days"]) for rule in told["rules"]}
    assert sources["home"] == ("team", 7)
    assert sources["output"] == ("default", 90)
    assert list(sources) == [layer.name for layer in retention.layers()]


def test_rules_that_delete_are_saved_only_with_the_confirmation_of_their_preview(admin, old):
    wish = {"rules": [{"layer": "snapshots-action", "days": 90}]}
    refused = send(admin, "put", "", wish)
    assert (refused.status_code, RetentionRule.objects.count()) == (409, 0)
    found = send(admin, "post", "/preview", wish).json()
    assert found["confirm"] == refused.json()["confirm"]
    [layer] = found["layers"]
    names = [(item["workspace"], item["name"]) for item in layer["items"]]
    assert (layer["layer"], names) == (
        "snapshots-action",
        [("repo-task-1", "snapshot 4"), ("repo-task-1", "snapshot 3")],
    )
    assert send(admin, "put", "", wish | {"confirm": found["confirm"]}).status_code == 200
    assert [(row.layer, row.days) for row in RetentionRule.objects.all()] == [("snapshots-action", 90)]
    assert [part["count"] for part in admin.get(f"{AT}/preview").json()["layers"]] == [2]
    assert send(admin, "put", "", {"rules": []}).status_code == 200
    assert not RetentionRule.objects.exists()


@pytest.mark.parametrize(
    ("rule", "detail"),
    [
        ({"layer": "moon", "days": 1}, "There is no retention layer 'moon'."),
        ({"layer": "home", "days": 1, "environment": "moon"}, "There is no environment 'moon' in this team."),
        ({"layer": "home", "days": 1, "keep_daily": 2}, "Agents' home folders: only days apply, not daily."),
        ({"layer": "trash"}, "Trash: give a number of days."),
    ],
)
def test_rules_that_cannot_be_are_refused_in_a_sentence(admin, workspace, rule, detail):
    refused = send(admin, "put", "", {"rules": [rule]})
    assert (refused.status_code, refused.json()["detail"]) == (422, detail)
    assert not RetentionRule.objects.exists()


def test_sweeps_are_asked_for_stopped_and_put_off(admin, team):
    assert send(admin, "post", "/sweeps", {"dry_run": True}).status_code == 202
    assert send(admin, "post", "/sweeps").status_code == 409
    assert send(admin, "post", "/sweeps/stop").status_code == 202
    assert send(admin, "post", "/sweeps/stop").status_code == 409
    [told] = admin.get(f"{AT}/sweeps").json()["sweeps"]
    assert (told["phase"], told["dry_run"], told["by"], bool(told["cancelled_at"])) == ("due", True, "alice", True)
    assert send(admin, "post", "/sweeps/put-off", {"days": 3}).json()["what"] == "everything of Payments"
    assert [hold["what"] for hold in admin.get(f"{AT}/holds").json()["holds"]] == ["everything of Payments"]


def test_holds_are_set_and_released_by_leads(api, token_of, lena, workspace):
    lead = api(token_of(lena))
    wish = {"workspace": workspace.key, "snapshot": 2, "reason": "lawsuit"}
    made = send(lead, "post", "/holds", wish).json()
    assert (made["what"], made["by"], made["until"]) == ("snapshot 2 of repo-task-1", "lena", None)
    assert send(lead, "post", "/holds", wish | {"until": "2020-01-01T00:00:00Z"}).status_code == 422
    assert send(lead, "post", "/holds", wish | {"snapshot": 9}).status_code == 404
    assert send(lead, "delete", f"/holds/{made['id']}").json()["released_at"] is not None
    assert send(lead, "delete", f"/holds/{made['id']}").status_code == 409
    assert not Hold.objects.active().exists()


def test_others_change_nothing(api, token_of, bob, lena, mallory, agent_token, workspace):
    hold = Hold.objects.create(team=workspace.team, workspace=workspace, reason="x", created_at=clock.now())
    assert send(api(token_of(lena)), "put", "", {"rules": []}).status_code == 403
    assert send(api(token_of(bob)), "post", "/holds", {"reason": "x"}).status_code == 403
    for verb, path in (("get", ""), ("get", "/preview"), ("get", "/holds"), ("post", "/sweeps")):
        assert send(api(agent_token), verb, path).status_code == 403
    stranger, wish = api(token_of(mallory)), {"reason": "x", "workspace": "repo-task-1"}
    assert send(stranger, "delete", f"/holds/{hold.pk}").status_code == 404
    assert send(stranger, "post", "/holds", wish).status_code == 404
    assert (Hold.objects.active().count(), Operation.objects.count()) == (1, 0)


def test_a_snapshot_goes_to_the_trash_and_back(api, token_of, lena, old):
    lead, at = api(token_of(lena)), "/api/v1/workspaces/repo-task-1/snapshots"
    assert lead.delete(f"{at}/3").json()["in_trash_until"] is not None
    assert lead.delete(f"{at}/3").status_code == 409
    for number, which in ((1, "first"), (2, "current")):
        detail = f"Snapshot {number} is the {which} one of repo-task-1, which always stays."
        assert lead.delete(f"{at}/{number}").json()["detail"] == detail
    refused = lead.post(f"{at}/3/restore", {}, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"][:26]) == (409, "Snapshot 3 is in the trash")
    back = lead.post(f"{at}/3/untrash", {}, content_type="application/json").json()
    assert (back["in_trash_until"], back["pinned"]) == (None, True)
    assert lead.post(f"{at}/3/untrash", {}, content_type="application/json").status_code == 409


# Later days ----------------------------------------------------------------------------------------------------------


def test_a_preview_of_a_later_day_names_what_goes_until_then(admin, workspace):
    made = clock.now() - timedelta(days=60)
    Snapshot.objects.create(
        workspace=workspace, number=3, tree=b"3" * 32, kind="setup", entries=1, bytes=1, added_bytes=1, created_at=made
    )
    RetentionRule.objects.create(team=workspace.team, layer="snapshots-setup", days=90)
    assert admin.get(f"{AT}/preview").json()["layers"] == []
    day = (clock.now() + timedelta(days=35)).date().isoformat()
    told = admin.get(f"{AT}/preview?on={day}").json()
    assert ([layer["layer"] for layer in told["layers"]], told["at"][:10]) == (["snapshots-setup"], day)
    assert "until the sweep of that day (" in told["says"]


@pytest.mark.parametrize("day", ["2020-01-01", "2999-01-01", "tomorrow", "2027-02-30"])
def test_other_days_are_refused(admin, team, day):
    assert admin.get(f"{AT}/preview?on={day}").status_code == 422


def test_the_page_of_a_team_has_a_day_to_choose(alice, team, browser_of):
    client = browser_of(alice)
    type(alice).objects.filter(pk=alice.pk).update(is_staff=True)
    page = f"/admin/workspaces/teamretention/{team.pk}/change/"
    day = (clock.now() + timedelta(days=35)).date().isoformat()
    text = client.get(f"{page}?on={day}").content.decode()
    assert (f'name="on" value="{day}"' in text, "until the sweep of that day" in text) == (True, True)
    assert "Give a day as YYYY-MM-DD." in client.get(f"{page}?on=x").content.decode()


@pytest.mark.parametrize("covers", ["workspace", "snapshot", "team"])
def test_nobody_moves_to_the_trash_what_is_on_hold(api, token_of, alice, workspace, old, client, covers):
    what = {"workspace": {"workspace": workspace}, "snapshot": {"workspace": workspace, "snapshot": workspace.head}}
    about = {"reason": "court order", "created_at": clock.now()} | what.get(covers, {})
    hold = Hold.objects.create(team=workspace.team, **about)
    person = api(token_of(alice))
    refused = person.delete(f"/api/v1/workspaces/{workspace.key}")
    assert (refused.status_code, refused.json()["detail"]) == (409, f"{workspace.key} is on hold: court order")
    assert not Operation.objects.filter(kind="trash").exists()
    workspace.trashed_at = workspace.purge_at = clock.now()
    workspace.save()
    client.force_login(alice)
    assert "On hold, so it is not deleted: court order" in client.get("/workspaces/trash/").content.decode()
    hold.released_at = clock.now()
    hold.save()
    assert "On hold" not in client.get("/workspaces/trash/").content.decode()

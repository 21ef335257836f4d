"""A picture of a page that is kept with a snapshot: by a person and by an agent."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.models import Actor, Event
from tests.pages.conftest import keep_tree, make_workspace
from tests.support.pictures import png
from workspaces.models import Screenshot, Snapshot
from workspaces.services.screenshots import keeping

HERE = "/w/payments/repo-task-1/snapshots/2/"
API = "/api/v1/workspaces/repo-task-1/snapshots/2/screenshot"
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080002000301011100ffd9")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture
def api(client, agent_token):
    """`api("post", data)`: what an agent sends for snapshot 2."""

    def call(method, data=None, query="", address=API):
        headers = {"Authorization": f"Bearer {agent_token}"}
        more = {"data": data, "content_type": "application/octet-stream"} if data is not None else {}
        return getattr(client, method)(address + query, headers=headers, **more)

    return call


@pytest.fixture
def send(browser_of, workspace):
    def by(person, data=None, name="page.png", **fields):
        picture = {} if data is None else {"picture": SimpleUploadedFile(name, data, "text/html")}
        return browser_of(person).post(f"{HERE}screenshot/keep/", {**picture, **fields}, follow=True)

    return by


def test_an_agent_keeps_one_over_the_api_and_reads_it(workspace, agent, api):
    made = api("post", png(3, 2), "?page=http://localhost:3000/cart")
    assert made.status_code == 201, made.content
    told = made.json()
    told.pop("created_at")
    size = len(png(3, 2))
    assert told == {
        "kind": "image/png",
        "width": 3,
        "height": 2,
        "bytes": size,
        "page": "http://localhost:3000/cart",
    }
    event = Event.objects.get(verb="screenshot.kept")
    assert (event.actor_label, event.data) == (agent.name, {"snapshot": 2, "bytes": size})
    answer = api("get")
    assert (answer.content, answer["Content-Type"]) == (png(3, 2), "image/png")
    check_headers(answer)
    assert api("delete").status_code == 204
    assert [api(method).status_code for method in ("get", "delete")] == [404, 404]


def check_headers(answer):
    """No browser takes it for a page of this site."""
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_person_sends_one_and_every_page_of_the_snapshot_has_it(workspace, alice, bob, browser_of, read, send):
    assert "The screenshot is kept." in send(bob, png(4, 3), page="http://localhost:3000/").content.decode()
    client = browser_of(alice)
    image = f'src="{HERE}screenshot/"'
    shown = read(client, HERE)
    assert image in shown
    assert "http://localhost:3000/" in shown
    assert image in read(client, "/w/payments/repo-task-1/snapshots/")
    answer = client.get(f"{HERE}screenshot/")
    assert (answer.content, answer["Content-Type"]) == (png(4, 3), "image/png")
    check_headers(answer)
    assert browser_of(bob).post(f"{HERE}screenshot/delete/").status_code == 302
    assert Screenshot.objects.count() == 0
    assert client.get(f"{HERE}screenshot/").status_code == 404


def test_a_new_screenshot_replaces_the_old_one(workspace, api):
    for data in (png(1, 1), JPEG):
        assert api("post", data).status_code == 201
    assert [(it.kind, it.width, it.height) for it in Screenshot.objects.all()] == [("image/jpeg", 3, 2)]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (SVG, 422),
        (b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", 422),
        (b"\x89PNG\r\n\x1a\n", 422),
        (b"", 422),
        (png(1, 1) + b"\0" * keeping.MAX_BYTES, 413),
    ],
    ids=["svg", "gif", "no header", "nothing", "too large"],
)
def test_an_invalid_picture_is_refused(workspace, api, bob, send, data, status):
    assert api("post", data).status_code == status
    assert "The screenshot is kept." not in send(bob, data).content.decode()
    assert Screenshot.objects.count() == 0


def test_a_viewer_may_not_keep_a_screenshot(workspace, vera, mallory, browser_of, send, api):
    assert send(vera, png(1, 1)).status_code == 403
    assert send(mallory, png(1, 1)).status_code == 404
    assert api("post", png(1, 1), address=API.replace("/2/", "/9/")).status_code == 404
    assert Screenshot.objects.count() == 0


def test_a_team_has_a_quota(workspace, api, monkeypatch):
    monkeypatch.setattr(keeping, "TEAM_BYTES", len(png(1, 1)) + 10)
    assert api("post", png(1, 1)).status_code == 201
    assert api("post", png(1, 1)).status_code == 201  # in the place of the first
    refused = api("post", png(1, 1), address=API.replace("/2/", "/1/"))
    assert (refused.status_code, "is the limit" in refused.json()["detail"]) == (409, True)


def test_a_screenshot_is_deleted_with_its_snapshot(workspace, api):
    api("post", png(1, 1))
    Snapshot.objects.filter(workspace=workspace, number=2).delete()
    assert Screenshot.objects.count() == 0


def test_the_diff_shows_those_of_both_ends(team, agent, alice, browser_of, read, tmp_path):
    made = make_workspace(team, agent, "drawn")
    for snapshot in made.snapshots.order_by("number"):
        tree = keep_tree(team, tmp_path / str(snapshot.number), {"page.html": f"{snapshot.number}\n"})
        made.snapshots.filter(pk=snapshot.pk).update(tree=tree)
        keeping.save(snapshot, png(snapshot.number, 1), by=Actor.agent(agent))
    html = read(browser_of(alice), "/w/payments/drawn/changes/?from=1&to=2")
    part = html.partition('id="pictures-title"')[2].partition("</section>")[0]
    assert re.findall(r'src="([^"]+)"', part) == [f"/w/payments/drawn/snapshots/{n}/screenshot/" for n in (1, 2)]
    Screenshot.objects.all().delete()
    assert "pictures-title" not in read(browser_of(alice), "/w/payments/drawn/changes/?from=1&to=2")


def test_a_list_reads_no_pictures(workspace, alice, browser_of, api):
    client = browser_of(alice)
    api("post", png(1, 1))
    client.get("/w/payments/repo-task-1/snapshots/")
    with CaptureQueriesContext(connection) as queries:
        client.get("/w/payments/repo-task-1/snapshots/")
    assert [query["sql"] for query in queries if '"workspaces_screenshot"."data"' in query["sql"]] == []


def test_without_a_browser_the_network_page_says_so(workspace, bob, browser_of, read, settings):
    settings.HANDRAIL_CHROMIUM = ""
    html = read(browser_of(bob), "/w/payments/repo-task-1/network/")
    assert "Handrail has no browser here" in html
    assert f'href="{HERE}#screenshot-title"' in html
    answer = browser_of(bob).post("/w/payments/repo-task-1/network/screenshot/", {"port": "3000"}, follow=True)
    assert "Handrail has no browser here" in answer.content.decode()
    settings.HANDRAIL_CHROMIUM = "no-such-browser"
    assert "no-such-browser" in read(browser_of(bob), "/w/payments/repo-task-1/network/")

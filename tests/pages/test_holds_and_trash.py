"""Holds and the trash of snapshots on the pages of a workspace."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Event
from workspaces.models import Hold, Snapshot

AT = "/w/payments/repo-task-1/"


@pytest.fixture
def middle(workspace):
    """A snapshot that is neither the first nor the current one."""
    made = Snapshot.objects.get(workspace=workspace, number=2)
    Snapshot.objects.filter(pk=made.pk).update(number=3)
    return Snapshot.objects.create(
        workspace=workspace,
        number=2,
        tree=b"2" * 32,
        kind="action",
        entries=1,
        bytes=1,
        added_bytes=1,
        created_at=clock.now() - timedelta(days=1),
    )


def test_a_lead_holds_a_workspace_and_releases_it(browser_of, lena, vera, workspace, read):
    client = browser_of(lena)
    client.post(f"{AT}hold/", {"reason": "lawsuit 7", "days": "10"})
    hold = Hold.objects.get()
    assert (hold.workspace, hold.snapshot, hold.reason) == (workspace, None, "lawsuit 7")
    assert timedelta(days=9) < hold.until - clock.now() <= timedelta(days=10)
    text = read(browser_of(vera), AT)
    assert ("On hold, nothing deletes it: <b>repo-task-1</b>. lawsuit 7 (lena)" in text, ">Release<" in text) == (
        True,
        False,
    )
    assert browser_of(vera).post(f"/holds/{hold.pk}/release/").status_code == 403
    client.post(f"/holds/{hold.pk}/release/", {"next": AT})
    assert "On hold, nothing" not in read(client, AT)
    verbs = Event.objects.filter(verb__startswith="hold.").order_by("seq").values_list("verb", "workspace_id")
    assert list(verbs) == [("hold.set", workspace.pk), ("hold.released", workspace.pk)]


@pytest.mark.parametrize(("reason", "days"), [("", "1"), ("x", "0"), ("x", "soon"), ("x", "99999999")])
def test_a_hold_without_a_reason_or_with_a_wrong_end_is_refused(browser_of, lena, workspace, reason, days):
    browser_of(lena).post(f"{AT}hold/", {"reason": reason, "days": days})
    assert not Hold.objects.exists()


def test_a_held_snapshot_does_not_go_to_the_trash(browser_of, lena, middle, read):
    client = browser_of(lena)
    client.post(f"{AT}snapshots/2/hold/", {"reason": "lawsuit", "days": ""})
    text = read_after(client.post(f"{AT}snapshots/2/trash/", follow=True))
    assert "Snapshot 2 is on hold: lawsuit" in text
    assert Snapshot.objects.in_trash().count() == 0


def read_after(response) -> str:
    return response.content.decode()


def test_a_snapshot_goes_to_the_trash_and_back_by_the_page(browser_of, lena, vera, middle, read):
    client = browser_of(lena)
    assert browser_of(vera).post(f"{AT}snapshots/2/trash/").status_code == 403
    client.post(f"{AT}snapshots/2/trash/")
    middle.refresh_from_db()
    assert middle.trashed_at is not None
    text = read(client, f"{AT}snapshots/2/")
    assert ("In the trash: deleted for good" in text, "Restore…" in text) == (True, False)
    assert "in the trash, deleted for good" in read(client, f"{AT}snapshots/")
    client.post(f"{AT}snapshots/2/untrash/")
    middle.refresh_from_db()
    assert (middle.trashed_at, middle.pinned) == (None, True)


def test_strangers_find_nothing(browser_of, mallory, middle):
    hold = Hold.objects.create(team=middle.workspace.team, reason="x", created_at=clock.now())
    client = browser_of(mallory)
    for address in ("hold/", "snapshots/2/hold/", "snapshots/2/trash/", "snapshots/2/untrash/"):
        assert client.post(f"{AT}{address}", {"reason": "x"}).status_code == 404
    assert client.post(f"/holds/{hold.pk}/release/").status_code == 404
    assert (Hold.objects.active().count(), Snapshot.objects.in_trash().count()) == (1, 0)

"""What retention takes from a workspace that stays: the agent's home and old output; never its files. And what is left
of one that was deleted: all until its day, and nothing afterwards."""

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.test_life import tree_of

AGE_AND_SWEEP = """
from datetime import timedelta
from dashboard.database import clock
from workspaces.services import retention
from workspaces.models import Command, Workspace
workspace = Workspace.objects.get(key={key!r})
long_ago = clock.now() - timedelta(days=100)
Workspace.objects.filter(pk=workspace.pk).update(last_active_at=long_ago)
Command.objects.filter(pk={old!r}).update(ended_at=long_ago)
retention.sweep()
"""


def test_homes_and_old_outputs_go_and_files_stay(desk, product):
    key = desk.create()["key"]
    wish = {"command": "echo printed; echo kept > file; mkdir -p ~/cache; echo x | tee ~/session ~/cache/y > /dev/null"}
    old = desk.finished(desk.post(f"/workspaces/{key}/commands", wish).json["id"])
    young = desk.finished(desk.post(f"/workspaces/{key}/commands", {"command": "echo young"}).json["id"])
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    product.shell(AGE_AND_SWEEP.format(key=key, old=old["id"]))
    desk.settled(key)
    gone = desk.get(f"/commands/{old['id']}/output", expect=404).json
    assert gone["detail"].startswith("Its output was kept until ")
    assert desk.get(f"/commands/{old['id']}").json["exit_status"] == 0
    assert desk.get(f"/commands/{young['id']}/output").body == b"young\n"
    desk.post(f"/workspaces/{key}/resume", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat file; ls -A ~").split() == [b"kept"]


EMPTY_THE_TRASH = """
from dashboard.database import clock
from workspaces.services import retention
from workspaces.models import Workspace
Workspace.objects.filter(key={key!r}).update(purge_at=clock.now())
retention.sweep()
"""


def test_a_deleted_workspace_is_kept_until_its_day_and_nothing_of_it_afterwards(desk, lead_token, product):
    key = desk.create()["key"]
    desk.run(key, f"echo kept > {key}")
    folder = tree_of(product, key).parent
    number = desk.post(f"/workspaces/{key}/snapshots", {"label": "last"}).json["number"]
    desk.post(f"/workspaces/{key}/snapshots/{number}/archive", expect=202)
    desk.settled(key)
    archives = product.home / "archives" / folder.name
    until(lambda: list(archives.glob("*.tar.zst")))
    Desk(product, lead_token).call("DELETE", f"/workspaces/{key}", expect=202)
    until(lambda: desk.get(f"/workspaces/{key}", expect=None).status == 404)
    assert "in_trash_until" in desk.post("/workspaces", {"key": key}, expect=409).json
    assert (folder / "tree" / key).read_text() == "kept\n"
    product.shell(EMPTY_THE_TRASH.format(key=key))
    until(lambda: not folder.exists() and not archives.exists())
    until(lambda: desk.get(f"/workspaces/{key}", expect=None).status == 410)
    told = [desk.get(f"/workspaces/{key}/files/x", expect=410).json, desk.post("/workspaces", {"key": key}, 410).json]
    assert [answer["gone_at"] for answer in told] == [desk.get(f"/workspaces/{key}", 410).json["gone_at"]] * 2
    assert told[0]["detail"].startswith(f"{key} was deleted for good at ")
    desk.post("/workspaces", {"key": key, "fresh": True})
    desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/").json["entries"] == []

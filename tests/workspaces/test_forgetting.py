"""What retention takes from a workspace that stays: the agent's home and old output; never its files."""

AGE_AND_SWEEP = """
from datetime import timedelta
from dashboard import clock
from workspaces import retention
from workspaces.models import Command, RetentionPolicy, Workspace
workspace = Workspace.objects.get(key={key!r})
long_ago = clock.now() - timedelta(days=100)
Workspace.objects.filter(pk=workspace.pk).update(last_active_at=long_ago)
Command.objects.filter(pk={old!r}).update(ended_at=long_ago)
policy = RetentionPolicy.objects.create(team=workspace.team, snapshot_days=None, home_days=30, output_days=90)
retention.sweep()
policy.delete()
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

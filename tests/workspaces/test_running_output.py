"""A command that runs says how much output there is so far."""

from tests.support.waiting import until


def test_the_bytes_of_output_so_far_are_told_while_a_command_runs(desk):
    key = desk.create()["key"]
    command = desk.post(f"/workspaces/{key}/commands", {"command": "printf %97s x; sleep 60"}).json["id"]
    running = until(lambda: (c := desk.get(f"/commands/{command}").json)["output_bytes"] and c)
    assert (running["state"], running["output_bytes"]) == ("started", 97)
    listed = desk.get(f"/workspaces/{key}/commands").json["commands"][0]
    assert (listed["id"], listed["output_bytes"]) == (command, 97)
    desk.post(f"/commands/{command}/cancel", expect=202)
    assert desk.finished(command)["output_bytes"] == 97

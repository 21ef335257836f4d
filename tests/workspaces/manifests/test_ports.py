"""The ports of a manifest are those on which programs listen when its snapshot is taken."""

from tests.support.waiting import until

PORT = 8131
SERVE = f"exec python3 -m http.server {PORT} --bind 127.0.0.1"
LISTENS = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))' 2>/dev/null || echo no"


def test_a_server_that_just_started_or_ended_is_as_it_is_at_the_snapshot(desk):
    key = desk.create()["key"]

    def ports_of(number: int) -> list[dict]:
        return desk.get(f"/workspaces/{key}/snapshots/{number}/manifest").json["ports"]

    command = desk.post(f"/workspaces/{key}/commands", {"command": SERVE, "timeout_s": 3600}).json["id"]
    until(lambda: desk.run(key, LISTENS) == b"")
    taken = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    restored = desk.post(f"/workspaces/{key}/snapshots/1/restore", expect=202).json["safety_snapshot"]
    desk.settled(key)
    assert ports_of(taken) == ports_of(restored) == [{"address": "127.0.0.1", "port": PORT}]
    desk.post(f"/commands/{command}/cancel", expect=None)
    desk.finished(command)
    assert ports_of(desk.post(f"/workspaces/{key}/snapshots").json["number"]) == []

"""Workspaces in pods, through the whole product on a real cluster."""

from tests.support.waiting import until


def test_a_pod_from_its_making_to_its_fork(on_cluster):
    desk = on_cluster
    [found] = [driver for driver in desk.get("/drivers").json["drivers"] if driver["name"] == "kubernetes"]
    assert found["available"], found
    made = desk.create(driver="kubernetes")
    key = made["key"]
    assert (made["state"], made["isolation"], made["driver"]) == ("ready", "pod-runc", "kubernetes"), made
    assert desk.run(key, "pwd; echo one > note; cat /workspace/note") == b"/workspace\none\n"
    desk.post(f"/workspaces/{key}/terminals", {"argv": ["bash", "-c", "tty > from-terminal"]})
    path = f"/workspaces/{key}/files/from-terminal"
    until(lambda: desk.product.get(f"/api/v1{path}", desk.token).body.startswith(b"/dev/pts/"))
    point = desk.post(f"/workspaces/{key}/snapshots", {"label": "one"}).json["number"]
    desk.run(key, "echo two > note")
    desk.post(f"/workspaces/{key}/stop", expect=202)
    assert desk.settled(key)["state"] == "stopped"
    desk.post(f"/workspaces/{key}/resume", expect=202)
    resumed = desk.settled(key)
    assert (resumed["state"], resumed["reason"]) == ("ready", "")
    assert desk.run(key, "cat note") == b"two\n"
    desk.post(f"/workspaces/{key}/snapshots/{point}/restore", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat note") == b"one\n"
    desk.post(f"/workspaces/{key}/stop", expect=202)
    assert desk.settled(key)["state"] == "stopped"

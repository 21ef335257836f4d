"""A workspace of one host, used through the web of another: the same pages, the same bytes, the same refusals."""

import io
import os
import signal
import tarfile

from tests.support.waiting import until
from tests.workspaces.test_previews import APP, Host


def test_files_are_read_and_written(both_hosts):
    own, other = both_hosts.through_own, both_hosts.through_other
    assert other.get("/workspaces/far/files/hello.txt").body == b"hello\n"
    assert other.call("PUT", "/workspaces/far/files/written.txt", b"elsewhere", None).status in (200, 201)
    assert own.get("/workspaces/far/files/written.txt").body == b"elsewhere"
    names = {entry["name"] for entry in other.get("/workspaces/far/files/").json["entries"]}
    assert {"hello.txt", "written.txt"} <= names
    other.call("DELETE", "/workspaces/far/files/written.txt", None, None)
    assert other.get("/workspaces/far/files/written.txt", 404).json["detail"]


def test_a_command_is_started_and_its_output_followed(both_hosts):
    other = both_hosts.through_other
    assert other.run("far", "for i in 1 2 3; do echo $i; sleep 0.2; done") == b"1\n2\n3\n"
    command = other.post("/workspaces/far/commands", {"command": "for i in 1 2 3; do echo $i; sleep 0.3; done"}).json
    assert other.get(f"/commands/{command['id']}/output?follow=1").body == b"1\n2\n3\n"
    assert other.get(f"/commands/{command['id']}/output?offset=2").body == b"2\n3\n"
    assert other.get(f"/commands/{command['id']}").json["output_bytes"] == 6


def test_the_output_of_a_command_and_a_file_are_searched_and_asked(both_hosts):
    other = both_hosts.through_other
    command = other.post("/workspaces/far/commands", {"command": "echo name,size; echo a,3; echo b,4"}).json["id"]
    other.finished(command)
    found = other.get(f"/commands/{command}/output/search?pattern=^b").json
    assert [(line["n"], line["text"]) for line in found["lines"]] == [(3, "b,4")]
    asked = other.post(f"/commands/{command}/output/query", {"sql": "SELECT sum(size) FROM output"}, expect=200)
    assert asked.json["rows"] == [[7]]
    other.call("PUT", "/workspaces/far/files/sizes.csv", b"name,size\na,5\n", None)
    asked = other.post("/workspaces/far/query", {"path": "sizes.csv", "sql": "SELECT size FROM file"}, expect=200)
    assert asked.json["rows"] == [[5]]
    assert other.get("/workspaces/far/search?path=none.csv&pattern=a", 404).json["detail"]


def test_a_folder_that_one_web_began_to_watch_is_asked_for_at_another(both_hosts):
    """As E2B's SDKs watch: any web answers the next question, and each change is told once."""
    own, other = both_hosts.through_own, both_hosts.through_other

    def envd(desk, name: str, message: dict) -> dict:
        sent = {"X-Access-Token": desk.token, "E2b-Sandbox-Id": "far", "Content-Type": "application/json"}
        told = desk.product.call("POST", f"/e2b/envd/filesystem.Filesystem/{name}", "", message, headers=sent)
        assert told.status == 200, told.body
        return told.json

    watch = envd(own, "CreateWatcher", {"path": ".", "recursive": True})
    own.call("PUT", "/workspaces/far/files/watched.txt", b"new", 201)
    events = envd(other, "GetWatcherEvents", watch)["events"]
    assert {"type": "EVENT_TYPE_CREATE", "name": "watched.txt"} in events
    assert envd(own, "GetWatcherEvents", watch) == {"events": []}
    other.call("DELETE", "/workspaces/far/files/watched.txt", None, None)
    assert envd(own, "GetWatcherEvents", watch) == {"events": [{"type": "EVENT_TYPE_REMOVE", "name": "watched.txt"}]}
    envd(other, "RemoveWatcher", watch)


def test_a_preview_is_shown(both_hosts):
    both_hosts.through_other.call("PUT", "/workspaces/far/files/app.py", APP, None)
    both_hosts.through_other.post(
        "/workspaces/far/commands", {"command": "exec python3 app.py 3456", "timeout_s": 3600}
    )
    listens = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3456))' 2>/dev/null || echo no"
    until(lambda: both_hosts.through_other.run("far", listens) == b"")
    url = both_hosts.through_other.post("/workspaces/far/previews", {"port": 3456}).json["url"]
    preview = Host(both_hosts.other, url)
    assert preview.enter().status == 303
    assert preview.ask("/").status == 200
    assert preview.ask("/").text == preview.ask("/").text != ""


def test_an_upload_at_another_web_becomes_a_workspace(both_hosts):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        held = tarfile.TarInfo("packed.txt")
        held.size = 6
        tar.addfile(held, io.BytesIO(b"packed"))
    upload = both_hosts.through_other.call("POST", "/uploads", packed.getvalue(), 201).json["id"]
    both_hosts.through_own.create("unpacked", source={"upload": upload})
    assert both_hosts.through_other.get("/workspaces/unpacked/files/packed.txt").body == b"packed"


CALL = """
import asyncio, http.client, ssl, uuid
from datetime import timedelta
from dashboard.database import clock
from dashboard.keys import certificates
from workspaces.host import leads, membership, paths
from workspaces.models import Runner, Workspace
lead = leads.of_row(Workspace.objects.get(key="far").runner)
"""
SHOWN = """
context = certificates.context(membership.authority().certificate.encode(), server=False)
certificates.show(context, pair, paths.runtime())
connection = http.client.HTTPSConnection(*lead.place, context=context)
connection.request("GET", "/ping")
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def test_a_host_that_is_no_member_any_more_is_refused_in_words(both_hosts):
    expired = "with clock.frozen_at(clock.now() - timedelta(days=2)): pair = membership.issue(membership.own_row())"
    removed = "pair = membership.issue(Runner(pk=uuid.uuid4(), host='gone'))"
    own = "pair = membership.issue(membership.own_row())"
    assert both_hosts.other.shell(f"{CALL}\n{own}\n{SHOWN}").startswith("200 ")
    for pair, words in ((expired, " expired at "), (removed, "gone was removed from this installation.")):
        told = both_hosts.other.shell(f"{CALL}\n{pair}\n{SHOWN}")
        assert told.startswith("403 ")
        assert words in told
    until(lambda: "a request was refused: gone was removed" in both_hosts.own.log)


def test_a_web_is_reached_through_the_runner_beside_it(both_hosts):
    """As the proxies of a host without one do."""
    ask = """
async def ask():
    reader, writer = await leads.open_stream(lead, "/web")
    writer.write(b"GET /healthz HTTP/1.1\\r\\nHost: handrail.internal\\r\\nConnection: close\\r\\n\\r\\n")
    print((await reader.readline()).decode())
    writer.close()
asyncio.run(ask())
"""
    assert both_hosts.other.shell(CALL + ask).startswith("HTTP/1.1 200")


def test_a_lead_that_was_killed_is_unreachable_and_nothing_is_gone(both_hosts):
    os.kill(both_hosts.own.part_pid("runner"), signal.SIGKILL)
    seen = []

    def is_back():
        seen.append(both_hosts.through_other.get("/workspaces/far/files/hello.txt", None))
        return seen[-1].status == 200

    until(is_back)
    assert seen[-1].body == b"hello\n"
    assert {(answer.status, answer.json["code"]) for answer in seen[:-1]} <= {(503, "unreachable")}

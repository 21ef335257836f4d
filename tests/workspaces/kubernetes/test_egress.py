"""The way out of a pod, which opens no connection itself: through its runner's proxy, to the hosts that are allowed."""

import shlex

from tests.workspaces.egress.grounds import Server
from tests.workspaces.egress.test_workspace import rows

# Python, which every pod has. Status 6: the name is unknown, or nobody is reached.
ASKS = """
import sys, urllib.error, urllib.request
proxies = urllib.request.ProxyHandler({} if "past" in sys.argv else None)
try:
    answer = urllib.request.build_opener(proxies).open(sys.argv[1], timeout=int(sys.argv[2]))
except urllib.error.HTTPError as error:
    answer = error
except OSError:
    sys.exit(6)
print(answer.read().decode())
"""


def fetch(host: str, port: int, *, seconds: int = 20, past: bool = False) -> str:
    """The command that asks a server, through the proxy or past it."""
    words = [f"http://{host}:{port}/x", str(seconds), *(["past"] if past else [])]
    return f"python3 -c {shlex.quote(ASKS)} {shlex.join(words)}"


def test_an_allowed_host_is_reached_from_a_pod_and_no_other(on_cluster, lead, workspace, name_for):
    server, canary = Server(), Server()
    good, bad, later = (name_for(word) for word in ("good", "bad", "later"))
    key = workspace(agent=[f"{good}:{server.port}"])
    assert on_cluster.run(key, fetch(good, server.port)) == b"hello\n"
    assert b"Blocked by Handrail" in on_cluster.run(key, fetch(bad, canary.port))
    assert b"Blocked by Handrail" in on_cluster.run(key, fetch(later, server.port))
    # Past the proxy there is nothing: the name is unknown in the pod, and no address is reached.
    for place in (good, server.address):
        on_cluster.run(key, fetch(place, server.port, seconds=3, past=True), 6)
    assert (canary.connections, bytes(canary.got)) == (0, b"")
    assert [row["host"] for row in rows(on_cluster, key, "allowed", host=good)] == [good]
    assert {row["host"] for row in rows(on_cluster, key, "blocked", total=2)} == {bad, later}

    lead.post(f"/workspaces/{key}/network/allow", {"host": later, "port": server.port})
    assert on_cluster.run(key, f"until {fetch(later, server.port)} | grep hello; do sleep 0.2; done") == b"hello\n"
    on_cluster.post(f"/workspaces/{key}/stop", expect=202)

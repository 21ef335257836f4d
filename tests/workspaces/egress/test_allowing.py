"""A host that was held back: asked for by the agent, allowed by a person, reached without a restart of anything."""

import json
import os
import shlex
import signal
import time

import pytest

from tests.support.waiting import until
from tests.workspaces.egress.grounds import read_request
from tests.workspaces.egress.test_workspace import fetch, rows


@pytest.fixture
def held(agent, workspace, serve, name_for):
    """A workspace whose program was held back: (key, host, port, reach), reach() being what it hears now."""
    server, host = serve(), name_for("wanted")
    key = workspace()

    def reach() -> bool:
        return b"hello" in agent.run(key, fetch(host, server.port))

    assert not reach()
    return key, host, server.port, reach


def ask(agent, key, host, port, **more):
    body = {"host": host, "port": port, **more}
    return agent.post(f"/workspaces/{key}/network/allow", body, expect=202).json["action"]


def decide(person, action, expect=200, verdict="approve"):
    body = {"verdict": verdict, "digest": action["digest"]}
    return person.post(f"/actions/{action['id']}/decision", body, expect=expect)


def ended(agent, action):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = agent.get(f"/actions/{action['id']}?wait=10").json
        if found["status"] not in ("pending", "approved", "running"):
            return found
    raise AssertionError(found)


def test_an_agent_asks_from_inside_and_a_reviewer_allows(agent, reviewer, held):
    key, host, port, reach = held
    body = json.dumps({"host": host, "port": port})
    said = agent.run(
        key,
        f'curl -sS -H "Authorization: Bearer $HANDRAIL_TOKEN" -H "Content-Type: application/json" '
        f"-d {shlex.quote(body)} $HANDRAIL_URL/api/v1/workspaces/{key}/network/allow",
    )
    action = json.loads(said)["action"]
    assert (action["status"], action["title"]) == ("pending", f"Allow {host}:{port} for {key}")
    assert not reach()
    decide(reviewer, action)
    assert ended(agent, action)["status"] == "succeeded"
    assert reach()
    assert reach()
    [blocked] = rows(agent, key, "blocked", total=2, host=host)
    [out] = rows(agent, key, "allowed", total=2, host=host)
    assert (blocked["count"], out["count"]) == (2, 2)


def test_an_allowance_for_once_is_one_connection(agent, reviewer, held):
    key, host, port, reach = held
    action = ask(agent, key, host, port, scope="once")
    decide(reviewer, action)
    ended(agent, action)
    assert [reach(), reach()] == [True, False]


def test_denied_it_stays_held_back(agent, reviewer, held):
    key, host, port, reach = held
    action = ask(agent, key, host, port)
    decide(reviewer, action, verdict="deny")
    assert not reach()
    assert agent.get(f"/workspaces/{key}/network").json["allowances"] == []


def test_for_the_environment_only_a_lead_says_yes_and_the_next_version_has_it(agent, reviewer, lead, held):
    key, host, port, reach = held
    name = agent.get(f"/workspaces/{key}").json["environment"]
    action = ask(agent, key, host, port, scope="environment")
    decide(reviewer, action, expect=403)
    reviewer.post(f"/workspaces/{key}/network/allow", {"host": host, "scope": "environment"}, expect=403)
    decide(lead, action)
    assert ended(agent, action)["status"] == "succeeded"
    assert reach()
    [made] = [one for one in lead.get("/environments").json["environments"] if one["name"] == name]
    assert (made["version"], made["egress"]) == (2, {"agent": [f"{host}:{port}"]})
    assert agent.get(f"/workspaces/{key}").json["environment_version"] == 1  # a workspace keeps its version
    other = agent.create(environment=name)["key"]
    assert b"hello" in agent.run(other, fetch(host, port))


def test_a_person_allows_directly_and_takes_it_back(agent, reviewer, held):
    key, host, port, reach = held
    made = reviewer.post(f"/workspaces/{key}/network/allow", {"host": f"*.{host.partition('.')[2]}", "port": port}).json
    assert reach()
    reviewer.call("DELETE", f"/workspaces/{key}/network/allowances/{made['id']}")
    assert not reach()


def test_what_is_taken_back_ends_what_is_open(agent, reviewer, workspace, serve, name_for):
    def talk_on(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while sock.send(b"."):
            time.sleep(0.05)

    server, host, other = serve(talk=talk_on), name_for("taken"), name_for("listed")
    key = workspace(agent=[f"{other}:{server.port}"])
    wish = {"host": host, "port": server.port}
    made = reviewer.post(f"/workspaces/{key}/network/allow", wish).json
    command = "curl -sN --max-time 60 http://{}:{}/ -o {}; echo $? > {}.ended"
    asked = [
        agent.post(f"/workspaces/{key}/commands", {"command": command.format(name, server.port, file, file)}).json["id"]
        for name, file in ((host, "taken"), (other, "listed"))
    ]
    for file in ("taken", "listed"):
        path = f"/workspaces/{key}/files/{file}"
        until(lambda path=path: (told := agent.call("GET", path, expect=None)).status == 200 and told.body)
    reviewer.call("DELETE", f"/workspaces/{key}/network/allowances/{made['id']}")
    done = agent.finished(asked[0])
    assert done["exit_status"] == 0
    assert agent.get(f"/workspaces/{key}/files/taken.ended").body == b"18\n"  # curl: cut short
    before = len(agent.get(f"/workspaces/{key}/files/listed").body)
    until(lambda: len(agent.get(f"/workspaces/{key}/files/listed").body) > before)  # the other one goes on
    agent.post(f"/commands/{asked[1]}/cancel", expect=202)
    agent.finished(asked[1])


def test_what_makes_no_sense_is_refused(agent, reviewer, product, held):
    key, host, _port, _ = held
    for wrong in ("10.0.0.1", "0x7f000001", "http://example.org/", "*", "a b", "*.*.org", "exa\0mple.org"):
        said = reviewer.post(f"/workspaces/{key}/network/allow", {"host": wrong}, expect=422).json["detail"]
        assert said
    agent.post(f"/workspaces/{key}/network/allow", {"host": host, "scope": "everywhere"}, expect=422)
    viewer = product.person_token("viewer-of-egress", "viewer")
    answer = product.post(f"/api/v1/workspaces/{key}/network/allow", viewer, {"host": host})
    assert answer.status == 403
    stranger = product.agent_token("stranger-to-egress")
    assert product.get(f"/api/v1/workspaces/{key}/network", stranger).status == 404


def test_the_runner_is_killed_and_the_next_one_makes_the_way_out_again(agent, product, held, reviewer):
    key, host, port, _reach = held
    reviewer.post(f"/workspaces/{key}/network/allow", {"host": host, "port": port})
    # A program that was there before, so that nothing but the listeners is new.
    retry = f"for n in $(seq 150); do {fetch(host, port)} && exit 0; sleep 0.2; done; exit 9"
    command = f"until [ -e go ]; do sleep 0.1; done; {retry}"
    done = agent.post(f"/workspaces/{key}/commands", {"command": command}).json
    before = product.part_pid("runner")
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while product.call("PUT", f"/api/v1/workspaces/{key}/files/go", agent.token, b"").status not in (200, 201, 204):
        assert time.monotonic() < deadline, "the runner did not come back"
        time.sleep(0.2)
    assert agent.finished(done["id"])["exit_status"] == 0
    assert product.part_pid("runner") != before

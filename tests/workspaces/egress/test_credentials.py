"""Credentials with a leash in a workspace: real clients, uses beyond the leash, and the value nowhere inside."""

import json
import subprocess
import time

import pytest

from tests.support.desk import Desk
from tests.workspaces.egress.api_desk import agent, api, environment, lead, product, workspace
from tests.workspaces.egress.api_host import HOST, Api, decide, waiting

__all__ = ["agent", "api", "environment", "lead", "product", "workspace"]  # fixtures

REAL = "ghp_RealRealRealRealRealRealReal1234"
ECHO = "https://{host}:{port}"


@pytest.fixture(scope="module")
def wish(api):
    return {
        "value": REAL,
        "hosts": [{"host": f"{HOST}:{api.port}", "paths": ["/repos/acme/*", "/git/*"], "methods": ["GET", "POST"]}],
        "header": "Authorization: Bearer {}",
        "variable": "GITHUB_TOKEN",
        "environments": ["leashed"],
    }


@pytest.fixture(scope="module")
def key(lead, environment, workspace, wish):
    name = environment("leashed")
    lead.call("PUT", "/credentials/github", wish)
    return workspace(name)


def url(api, path: str) -> str:
    return f"https://{HOST}:{api.port}{path}"


def sent(path: str) -> list[str]:
    return [shown for _, asked, shown, _ in Api.got if asked.partition("?")[0] == path]


# Who may set one -----------------------------------------------------------------------------------------------------


def test_leads_set_list_and_delete_it_and_no_answer_has_the_value(lead, key, wish, api):
    listed = lead.get("/credentials").json["credentials"]
    assert [(one["name"], one["variable"], one["environments"]) for one in listed] == [
        ("github", "GITHUB_TOKEN", ["leashed"])
    ]
    assert listed[0]["hosts"][0]["methods"] == ["GET", "HEAD", "POST"]
    other = wish | {"variable": "OTHER_TOKEN"}
    made = lead.call("PUT", "/credentials/other", other)
    assert REAL not in made.text + lead.get("/credentials").text + lead.get("/log?limit=50", expect=None).text
    lead.call("DELETE", "/credentials/other", expect=204)
    lead.call("DELETE", "/credentials/other", expect=404)


def test_nobody_else_may(product, agent, wish):
    reviewer = Desk(product, product.person_token("rita", "reviewer"))
    for desk in (reviewer, agent):
        desk.get("/credentials", expect=403)
        desk.call("PUT", "/credentials/github", wish, expect=403)
        desk.call("DELETE", "/credentials/github", expect=403)


@pytest.mark.parametrize(
    "change",
    [
        {"value": "short"},
        {"value": "with a blank in it"},
        {"header": "Host: {}"},
        {"variable": "PATH"},
        {"environments": ["none"]},
        {"environments": []},
        {"hosts": []},
        {"hosts": [{"host": "127.0.0.1"}]},
        {"hosts": [{"host": "a.example:80"}]},
    ],
)
def test_what_means_nothing_is_refused(lead, wish, change, key):
    lead.call("PUT", "/credentials/wrong", wish | change, expect=422)


def test_two_credentials_do_not_share_a_variable_in_one_environment(lead, wish, key):
    refused = lead.call("PUT", "/credentials/second", wish, expect=422)
    assert "The credential github has the variable GITHUB_TOKEN in the environment leashed already." in refused.text
    lead.call("PUT", "/credentials/github", wish)


# Real clients --------------------------------------------------------------------------------------------------------


def test_programs_find_a_stand_in_of_the_same_shape(agent, key):
    found = agent.run(key, 'printf "%s" "$GITHUB_TOKEN"').decode()
    assert (found[:4], len(found)) == (REAL[:4], len(REAL))
    assert found != REAL
    assert found[4:].isalnum()


def test_curl(agent, key, api):
    heard = agent.run(key, f'curl -sSi -H "Authorization: Bearer $GITHUB_TOKEN" {url(api, "/repos/acme/curl")}')
    assert sent("/repos/acme/curl") == [f"Bearer {REAL}"]
    assert REAL.encode() not in heard
    assert b"[secret github]" in heard


def test_git_clones_commits_and_pushes(agent, key, api):
    at = url(api, "/git/shop.git").replace("https://", "https://me:$GITHUB_TOKEN@")
    heard = agent.run(
        key,
        f'git clone -q "{at}" shop && cd shop && echo work > file && git add file && '
        "git -c user.name=me -c user.email=me@example.org commit -qm work && "
        "git push -q origin HEAD:refs/heads/main && git ls-remote origin",
    )
    assert b"refs/heads/main" in heard
    pushed = subprocess.run(
        ["git", "-C", f"{Api.repositories}/shop.git", "log", "--format=%s", "main"], capture_output=True, text=True
    )
    assert pushed.stdout == "work\n"


def test_each_use_is_an_event(lead, agent, key, api):
    agent.run(
        key, f'curl -sS -o /dev/null -H "Authorization: Bearer $GITHUB_TOKEN" {url(api, "/repos/acme/event?q=1")}'
    )
    events = lead.product.manage("shell", "-c", (
        "from dashboard.models import Event; "
        "print([e.data for e in Event.objects.filter(verb='credential.used').order_by('seq')][-1])"
    ))  # fmt: skip
    assert "'path': '/repos/acme/event'" in str(events)
    assert "'name': 'github'" in str(events)


# Beyond the leash ----------------------------------------------------------------------------------------------------


def beyond(agent, key, api, path):
    command = f'curl -sS -X DELETE -d body -H "Authorization: Bearer $GITHUB_TOKEN" {url(api, path)}?force=1'
    return agent.post(f"/workspaces/{key}/commands", {"command": command}).json["id"]


def test_a_use_beyond_the_leash_waits_for_a_person_and_goes_once(lead, agent, key, api):
    started = beyond(agent, key, api, "/user/emails")
    action = waiting(lead, "/user/emails")
    text = json.dumps(action)
    digest = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"
    for part in ("github", HOST, "DELETE", "force=1", digest):
        assert part in text
    assert sent("/user/emails") == []
    decide(lead, action, "approve")
    done = agent.finished(started)
    heard = agent.get(f"/commands/{done['id']}/output").body
    assert sent("/user/emails") == [f"Bearer {REAL}"], heard
    assert REAL.encode() not in heard
    assert lead.get(f"/actions/{action['id']}").json["status"] == "succeeded"
    again = beyond(agent, key, api, "/user/emails")
    second = waiting(lead, "/user/emails")
    assert second["id"] != action["id"]
    decide(lead, second, "deny", comment="Once.")
    assert b"Once." in agent.get(f"/commands/{agent.finished(again)['id']}/output").body
    assert sent("/user/emails") == [f"Bearer {REAL}"]


def test_nobody_edits_what_is_held_open(lead, agent, key, api):
    started = beyond(agent, key, api, "/user/keys")
    action = waiting(lead, "/user/keys")
    instead = action["arguments"] | {"path": "/user/other"}
    answer = {"verdict": "edit", "digest": action["digest"], "arguments": instead}
    lead.post(f"/actions/{action['id']}/decision", answer, expect=422)
    decide(lead, action, "deny")
    assert b"Blocked by Handrail" in agent.get(f"/commands/{agent.finished(started)['id']}/output").body
    assert (sent("/user/keys"), sent("/user/other")) == ([], [])


def test_the_value_is_nowhere_inside_and_in_no_record(lead, agent, key, api, product):
    agent.run(key, f'curl -sSi -H "Authorization: Bearer $GITHUB_TOKEN" {url(api, "/repos/acme/all")} > kept.txt')
    agent.post(f"/workspaces/{key}/snapshots", {}, expect=None)
    agent.settled(key)
    assert agent.run(key, f"grep -rlF {REAL[4:]!r} /workspace /etc /tmp $HOME 2>/dev/null; true") in (b"", b"\n")
    inside = agent.run(key, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat kept.txt")
    assert REAL.encode() not in inside
    assert b"PRIVATE KEY" not in agent.run(key, "cat /etc/handrail/*.pem")
    found = subprocess.run(["grep", "-rlaF", REAL, str(product.home)], capture_output=True, text=True).stdout.split()
    assert found == []
    assert REAL not in product.log
    admin = Desk(product, product.person_token("ada", "admin"))
    scrub = admin.post("/scrubs", {"value": REAL}, expect=None)
    assert scrub.status in (200, 201, 202), scrub.text


def test_an_approval_puts_in_no_credential_that_was_deleted_meanwhile(lead, agent, key, api):
    started = beyond(agent, key, api, "/user/late")
    action = waiting(lead, "/user/late")
    lead.call("DELETE", "/credentials/github", expect=204)
    decide(lead, action, "approve")
    heard = agent.get(f"/commands/{agent.finished(started)['id']}/output").body
    assert b"The credential github is not set for" in heard
    assert sent("/user/late") == []
    assert lead.get(f"/actions/{action['id']}").json["status"] != "succeeded"


def test_a_deleted_credential_is_put_in_no_more(lead, agent, key, api):
    lead.call("DELETE", "/credentials/github", expect=None)
    time.sleep(1.5)  # it is remembered for a second
    agent.run(key, f"curl -sSk -o /dev/null -H 'Authorization: Bearer x' {url(api, '/repos/acme/gone')}")
    assert sent("/repos/acme/gone") == ["Bearer x"]

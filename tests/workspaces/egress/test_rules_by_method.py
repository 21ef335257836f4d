"""Rules by method in a workspace: what they cover passes; the rest is one card for each host, method and Run."""

import json
import time

import pytest

from tests.workspaces.egress.api_desk import agent, api, environment, lead, product, workspace
from tests.workspaces.egress.api_host import HOST, Api, decide, waiting

__all__ = ["agent", "api", "environment", "lead", "product", "workspace"]  # fixtures


@pytest.fixture(scope="module")
def key(environment, workspace, api):
    return workspace(environment("ruled", lines=[f"{HOST}:{api.port} READ", f"{HOST}:{api.port} POST /hooks/*"]))


def got(path: str) -> list:
    return [(method, body) for method, asked, _, body in Api.got if asked.partition("?")[0] == path]


def curl(agent, key, api, path, *words) -> str:
    """Begin a request in the workspace; return the id of its command."""
    options = " ".join(words)
    command = f"curl -sS -w '%{{http_code}}' {options} https://{HOST}:{api.port}{path}"
    return agent.post(f"/workspaces/{key}/commands", {"command": command}).json["id"]


def output(agent, command) -> bytes:
    return agent.get(f"/commands/{agent.finished(command)['id']}/output").body


def test_what_the_rules_cover_passes_and_nobody_is_asked(lead, agent, key, api):
    assert output(agent, curl(agent, key, api, "/repos/acme/shop")).endswith(b"200")
    assert output(agent, curl(agent, key, api, "/hooks/build", "-d", "x")).endswith(b"200")
    query = "'" + json.dumps({"query": "{ viewer { login } }"}) + "'"
    assert output(agent, curl(agent, key, api, "/graphql", "--json", query)).endswith(b"200")
    assert (got("/hooks/build"), len(got("/graphql"))) == ([("POST", b"x")], 1)
    assert lead.get("/actions?status=pending").json["actions"] == []


def test_git_fetches_by_rules_that_only_read(agent, key, api):
    at = f"https://me:x@{HOST}:{api.port}/git/shop.git"
    assert b"done" in agent.run(key, f"git clone -q {at} fetched && echo done")


def test_one_card_for_each_host_method_and_run(lead, agent, key, api):
    first = curl(agent, key, api, "/one", "-X", "DELETE")
    action = waiting(lead, "/one")
    second = curl(agent, key, api, "/two", "-X", "DELETE")
    time.sleep(1.5)
    assert [each["id"] for each in lead.get("/actions?status=pending").json["actions"]] == [action["id"]]
    assert action["tool"] == "network.request"
    assert action["title"] == f"Send DELETE requests to {HOST}:{api.port} in this run of {key}; the first is for /one"
    assert (got("/one"), got("/two")) == ([], [])
    decide(lead, action, "approve")
    assert output(agent, first).endswith(b"200")
    assert output(agent, second).endswith(b"200")
    assert output(agent, curl(agent, key, api, "/three", "-X", "DELETE")).endswith(b"200")
    assert lead.get(f"/actions/{action['id']}").json["status"] == "succeeded"
    assert lead.get("/actions?status=pending").json["actions"] == []


def test_a_refusal_holds_for_the_run_as_well_and_says_who_refused(lead, agent, key, api, product):
    held = curl(agent, key, api, "/put", "-X", "PUT")
    decide(lead, waiting(lead, "/put"), "deny", comment="Not from here.")
    assert b"lia: Not from here." in output(agent, held)
    again = output(agent, curl(agent, key, api, "/put/again", "-X", "PUT"))
    assert (b"Not from here." in again, again.endswith(b"403")) == (True, True)
    assert got("/put") + got("/put/again") == []
    blocked = agent.get(f"/workspaces/{key}/network").json["blocked"]
    assert {row["code"] for row in blocked if row["host"] == HOST} == {"not_covered"}


def test_a_mutation_is_a_card_of_its_own(lead, agent, key, api):
    def mutation(name):
        body = "'" + json.dumps({"query": f"mutation {{ {name} {{ id }} }}"}) + "'"
        return curl(agent, key, api, "/api/graphql", "--json", body)

    first = mutation("closeIssue")
    action = waiting(lead, "/api/graphql")
    assert action["arguments"]["method"] == "POST (GraphQL mutation closeIssue)"
    decide(lead, action, "approve")
    assert output(agent, first).endswith(b"200")
    second = mutation("deleteIssue")
    other = waiting(lead, "deleteIssue")
    decide(lead, other, "deny")
    assert output(agent, second).endswith(b"403")
    assert len(got("/api/graphql")) == 1


def test_a_program_that_goes_away_withdraws_the_card(lead, agent, key, api):
    held = curl(agent, key, api, "/gone", "-X", "PATCH")
    action = waiting(lead, "/gone")
    agent.post(f"/commands/{held}/cancel", {}, expect=None)
    for _ in range(60):
        if lead.get(f"/actions/{action['id']}").json["status"] == "cancelled":
            break
        time.sleep(0.5)
    assert lead.get(f"/actions/{action['id']}").json["status"] == "cancelled"
    assert got("/gone") == []


def test_an_answer_holds_when_the_runner_starts_again_and_not_in_the_next_run(lead, agent, key, api, product):
    product.stop()
    product.start()
    assert output(agent, curl(agent, key, api, "/four", "-X", "DELETE")).endswith(b"200")
    for verb, state in (("pause", "paused"), ("resume", "ready")):
        lead.post(f"/workspaces/{key}/{verb}", {}, expect=None)
        assert lead.settled(key)["state"] == state
    held = curl(agent, key, api, "/five", "-X", "DELETE")
    decide(lead, waiting(lead, "/five"), "deny")
    assert output(agent, held).endswith(b"403")


def test_the_host_is_not_allowed_without_its_methods(lead, key, api):
    wish = {"host": HOST, "port": api.port, "scope": "workspace"}
    assert "on the list with methods" in lead.post(f"/workspaces/{key}/network/allow", wish, expect=409).text


@pytest.mark.parametrize(
    "egress",
    [
        {"setup": ["api.github.com READ"]},
        {"agent": ["*.github.com READ"]},
        {"agent": ["api.github.com", "api.github.com READ"]},
        {"agent": ["@everything"]},
    ],
)
def test_rules_that_mean_nothing_are_refused(lead, egress, key):
    lead.post("/environments", {"name": "wrong", "driver": "sandbox", "egress": egress}, expect=422)


def test_a_preset_is_written_out(lead, key):
    made = lead.post(
        "/environments", {"name": "preset", "egress": {"setup": ["@read-gitlab"], "agent": ["@read-gitlab"]}}
    )
    assert made.json["egress"] == {"setup": ["gitlab.com"], "agent": ["gitlab.com READ /*"]}

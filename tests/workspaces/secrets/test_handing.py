"""What programs get: by phase, as long as it is good, in the environment and nowhere else."""

import base64
import hashlib
import json
import re
import time
from pathlib import Path

from tests.workspaces.drivers.runs import IMAGES
from tests.workspaces.test_docker import docker  # noqa: F401 - a fixture

SHOW = r"""
import hashlib, json, os
print(json.dumps({n: hashlib.sha256(os.environb[n.encode()]).hexdigest() for n in os.environ if "_" in n}))
"""


def sha(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


def seen(desk, key) -> dict:
    """{variable: sha256 of its value} of a command's environment."""
    return json.loads(desk.run(key, f"python3 - <<'E'{SHOW}E"))


def test_each_phase_gets_its_own_and_only_those_that_are_named(desk, lead, names):
    key_of_setup, key_of_agent, both, unnamed = map(names, ("SETUP", "AGENT", "BOTH", "UNNAMED"))
    lead.set_secret(key_of_setup, "setup", "for the setup alone")
    lead.set_secret(key_of_agent, "agent", 'for the agent: ü "quoted" $HOME\nline two')
    lead.set_secret(both, "setup", "both, of the setup")
    lead.set_secret(both, "agent", "both, of the agent")
    lead.set_secret(unnamed, "agent", "named by nobody")
    script = f"sha256sum <<< ${key_of_setup}; python3 - <<'E' > seen.json{SHOW}E\n"
    name = names("env").lower()
    lead.environment(
        name, setup=script, setup_secrets=f"{key_of_setup} {both}", agent_secrets=f"{key_of_agent}, {both}"
    )
    key = desk.create(environment=name)["key"]
    in_setup = desk.get(f"/workspaces/{key}/files/seen.json").json
    assert in_setup[key_of_setup] == sha("for the setup alone")
    assert in_setup[both] == sha("both, of the setup")
    assert not {key_of_agent, unnamed} & in_setup.keys()
    in_agent = seen(desk, key)
    assert in_agent[key_of_agent] == sha('for the agent: ü "quoted" $HOME\nline two')
    assert in_agent[both] == sha("both, of the agent")
    assert not {key_of_setup, unnamed} & in_agent.keys()
    # A fork is made from the same environment, and its files hold nothing of the values.
    desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"}, 201)
    desk.settled(f"{key}-fork")
    assert seen(desk, f"{key}-fork")[key_of_agent] == in_agent[key_of_agent]


def test_the_token_of_a_run_is_looked_for_as_long_as_it_is_good(desk):
    key = desk.create()["key"]
    desk.run(key, "printenv HANDRAIL_TOKEN | base64 > kept")
    refused = desk.post(f"/workspaces/{key}/snapshots", {}, expect=409).json["detail"]
    assert "kept holds the secret HANDRAIL_TOKEN" in refused
    # With the Run the token ends, and what is left of it in a file is worth nothing.
    desk.post(f"/workspaces/{key}/pause", expect=202)
    slept = desk.settled(key)
    assert (slept["state"], slept["missing_snapshot"]) == ("paused", "")
    desk.run(key, "test -s kept")


def test_what_is_printed_is_recorded_without_the_values(desk, lead, names):
    name, value = names("PRINTED"), 'printed: ünd "more"/of it+'
    lead.set_secret(name, "agent", value)
    lead.environment(name.lower(), agent_secrets=name)
    key = desk.create(environment=name.lower())["key"]
    slowly = f'for i in $(seq 0 ${{#{name}}}); do printf %s "${{{name}:$i:1}}"; sleep 0.01; done'
    command = f'echo "<${name}>"; printf %s "${name}" | base64; {slowly}; ls "/${name}"'
    output = desk.run(key, command, expect_exit=2)
    assert output.count(f"[secret {name}]".encode()) == 4
    assert f"<[secret {name}]>\n".encode() in output
    assert value.encode() not in output
    assert base64.b64encode(value.encode())[:-4] not in output


def test_a_new_value_is_for_programs_that_start_from_then_on(desk, lead, names):
    name = names("ROTATED")
    lead.set_secret(name, "agent", "the first value")
    lead.environment(name.lower(), agent_secrets=name)
    key = desk.create(environment=name.lower())["key"]
    assert seen(desk, key)[name] == sha("the first value")
    lead.submit(lead.address_of(name), value="the second value")
    assert seen(desk, key)[name] == sha("the second value")
    # The first one may still lie somewhere, so it is not shown either.
    assert desk.run(key, "echo the first value, the second value") == f"[secret {name}], [secret {name}]\n".encode()
    lead.submit(lead.address_of(name) + "delete/", page=lead.address_of(name))
    assert name not in seen(desk, key)


def test_an_expired_secret_is_not_handed_out_and_a_set_up_that_needs_it_says_so(desk, lead, names, product):
    name = names("SHORT_LIVED")
    lead.set_secret(name, "setup", "good for a moment")
    lead.set_secret(name, "agent", "good for a moment, too")
    lead.environment(name.lower(), setup="true", setup_secrets=name, agent_secrets=name)
    key = desk.create(environment=name.lower())["key"]
    assert name in seen(desk, key)
    end = "import sys, datetime; from dashboard.database import clock; from dashboard.models import Actor;"
    end += "from workspaces import secrets; from workspaces.models import Secret;"
    end += "[secrets.change_expiry(s, clock.now() + datetime.timedelta(seconds=1.5), by=Actor.system('t')) for s in "
    end += f"Secret.objects.filter(name='{name}')]"
    product.shell(end)
    time.sleep(1.6)
    assert name not in seen(desk, key)
    assert "Expired: not given to programs" in lead.get(environment_page(lead, name.lower()))
    assert "expired" in lead.get("/secrets/")
    late = desk.create(f"{key}-late", environment=name.lower())
    assert late["state"] == "failed"
    assert late["reason"].startswith(f"The setup script was not run: the secret {name} has expired.")


def environment_page(lead, name) -> str:
    return re.search(rf'href="(/environments/[\w-]+/)">{name}<', lead.get("/environments/")).group(1)


def test_a_set_up_that_names_a_secret_nobody_set_says_so(desk, lead, names):
    name = names("NOWHERE")
    lead.environment(name.lower(), setup="true", setup_secrets=name)
    made = desk.create(environment=name.lower())
    assert made["reason"].startswith(f"The setup script was not run: there is no secret {name} for this phase.")
    lead.set_secret(name, "setup", "now it is there")
    desk.post("/workspaces", {"key": made["key"], "environment": name.lower()}, 200)
    assert desk.settled(made["key"])["state"] == "ready"


def test_a_container_gets_them_and_its_layer_keeps_none(desk, lead, names, docker):  # noqa: F811
    setup, agent = names("BUILD_KEY"), names("AGENT_KEY")
    lead.set_secret(setup, "setup", "a key for the build")
    lead.set_secret(agent, "agent", "a key for the agent")
    wish = {"driver": "docker", "image": IMAGES["docker"], "setup_secrets": setup, "agent_secrets": agent}
    lead.environment(f"{setup.lower()}-bad", setup=f'echo "${setup}" > /opt/leaked', **wish)
    made = desk.create(environment=f"{setup.lower()}-bad")
    expected = f"Setup's installed files were not saved: /opt/leaked holds the secret {setup}."
    assert (made["state"], made["reason"][: len(expected)]) == ("failed", expected)
    lead.environment(setup.lower(), setup=f'test -n "${setup}"; echo fine > /opt/tool', **wish)
    key = desk.create(environment=setup.lower())["key"]
    told = desk.run(key, f'echo "<${agent}><${setup}>"; cat /opt/tool')
    assert told == f"<[secret {agent}]><>\nfine\n".encode()


def test_other_programs_of_the_workspace_and_of_the_host_do_not_see_it(desk, lead, names, product):
    name, value = names("IN_MEMORY"), "kept in memory alone"
    lead.set_secret(name, "agent", value)
    lead.environment(name.lower(), agent_secrets=name)
    key = desk.create(environment=name.lower())["key"]
    running = desk.post(f"/workspaces/{key}/commands", {"command": "sleep 30"}).json["id"]
    first = desk.run(key, "cat /proc/1/environ /proc/1/cmdline | tr '\\0' '\\n'; ls -l /proc/1/fd 2>&1 | tail -1")
    assert b"IN_MEMORY" not in first
    hosts = [pid for pid in Path("/proc").glob("[0-9]*") if b"workspaces.shim" in read(pid / "cmdline")]
    assert hosts
    for pid in hosts:
        assert value.encode() not in read(pid / "cmdline") + read(pid / "environ")
    for folder in product.home.glob("workspaces/*/programs/*"):
        assert not [path for path in folder.iterdir() if path.is_file() and value.encode() in path.read_bytes()]
    desk.post(f"/commands/{running}/cancel", {}, 202)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_start_without_the_key_ring_says_so_and_leaves_nothing_that_runs(desk, product):
    key = desk.create()["key"]
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    ring = product.home / "keys" / "ring"
    ring.chmod(0o640)  # nobody knows who has read it
    try:
        desk.post(f"/workspaces/{key}/resume", expect=202)
        asleep = desk.settled(key)
    finally:
        ring.chmod(0o600)
    assert (asleep["state"], asleep["reason"].startswith("Its secrets cannot be read. ")) == ("stopped", True), asleep
    [ran, *_] = desk.get(f"/workspaces/{key}/runs").json["runs"]
    assert ran["ended_at"] is not None
    assert not (product.home / "runs" / ran["id"]).exists()
    desk.post(f"/workspaces/{key}/resume", expect=202)
    assert desk.settled(key)["state"] == "ready"


def test_files_that_went_back_are_said_to_be_back_also_when_they_may_not_be_kept(desk, lead, names):
    name = names("CAME_LATER")
    lead.set_secret(name, "agent", "the value that came later")
    lead.environment(name.lower(), agent_secrets=name)
    key = desk.create(environment=name.lower())["key"]
    desk.call("PUT", f"/workspaces/{key}/files/old", b"another value, of before", 201)
    desk.post(f"/workspaces/{key}/snapshots", {})
    desk.call("DELETE", f"/workspaces/{key}/files/old")
    lead.submit(lead.address_of(name), value="another value, of before")
    desk.run(key, "true")  # a program was given it: from here on files are searched for it
    told = desk.post(f"/workspaces/{key}/snapshots/2/restore", expect=202).json
    workspace = desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/old").body == b"another value, of before"
    outcome = desk.get(f"/workspaces/{key}/operations/{told['operation']}").json["outcome"]
    assert (outcome["ok"], outcome["created"], outcome["proof"]["differ"], outcome["safety_snapshot"]) == (
        True,
        1,
        0,
        3,
    )
    assert workspace["missing_snapshot"].startswith(
        f"The files were restored, but a snapshot of them could not be taken yet: old holds the secret {name}."
    )
    assert (workspace["head_snapshot"], workspace["proof"]["snapshot"]) == (3, 2)
    assert "snapshot of them could not be taken yet" in lead.get(f"/w/main/{key}/operations/{told['operation']}/")
    # It is missing until there is one.
    desk.call("DELETE", f"/workspaces/{key}/files/old")
    assert desk.post(f"/workspaces/{key}/snapshots", {}).json["number"] == 4
    assert desk.get(f"/workspaces/{key}").json["missing_snapshot"] == ""

"""What an agent installed in its home is kept for new workspaces of the environment by a lead, and given back."""

import os

import pytest

from tests.support.desk import Desk
from tests.support.visitor import Visitor

# What pip leaves of a wheel in a home: the module, the metadata, and a program in the folder that the PATH has first.
INSTALL = """
site=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p $site/greeter-{version}.dist-info ~/.local/bin ~/.cache
echo 'WORDS = "hello {version}"' > $site/greeter.py
echo 'Name: greeter' > $site/greeter-{version}.dist-info/METADATA
printf '#!/bin/sh\\nexec python3 -c "import greeter; print(greeter.WORDS)"\\n' > ~/.local/bin/greet
chmod +x ~/.local/bin/greet
echo cached > ~/.cache/big
greet
"""


@pytest.fixture(scope="module")
def manager(product):
    return Desk(product, product.person_token("manager-of-installed", "admin"))


@pytest.fixture
def environment(manager):
    """The name of a new environment of sandboxes."""
    name = f"installing-{os.urandom(4).hex()}"
    manager.post("/environments", {"name": name, "driver": "sandbox"})
    return name


def packages_of(found, path):
    folder = next(folder for folder in found["folders"] if folder["path"] == path)
    return [(each["kind"], each["name"], each["version"], each["state"]) for each in folder["packages"]]


def version_of(desk, environment):
    return next(one for one in desk.get("/environments").json["environments"] if one["name"] == environment)


def test_new_workspaces_begin_with_what_was_kept_and_no_longer_after_an_undo(product, desk, manager, environment):
    first = desk.create(environment=environment)["key"]
    assert desk.run(first, INSTALL.format(version="1.0")) == b"hello 1.0\n"
    found = desk.get(f"/workspaces/{first}/installed").json
    assert (found["why_not"], found["layer"], found["complete"]) == ("", None, True)
    assert "read-only in a sandbox" in found["root"]
    assert packages_of(found, ".local/bin") == [("program", "greet", "", "new")]
    assert packages_of(found, ".local/lib") == [("python", "greeter", "1.0", "new")]
    cache = next(folder for folder in found["folders"] if folder["path"] == ".cache/")
    assert (cache["can_be_kept"], cache["files"], cache["bytes"]) == (False, 1, 7)

    wish = {"folders": [".local/bin", ".local/lib"]}
    assert desk.post(f"/workspaces/{first}/installed", wish, expect=403).json["status"] == 403
    assert manager.post(f"/workspaces/{first}/installed", {"folders": [".cache"]}, expect=422)
    kept = manager.post(f"/workspaces/{first}/installed", wish).json
    assert (kept["environment"], kept["version"], kept["layer"]["packages"]) == (environment, 2, 2)
    assert desk.get(f"/workspaces/{first}/installed").json["folders"][0]["state"] == "same"

    second = desk.create(environment=environment)["key"]
    assert desk.run(second, "greet; ls -A ~ ~/.cache 2>&1 | grep -c big || true") == b"hello 1.0\n0\n"
    found = desk.get(f"/workspaces/{second}/installed").json
    assert found["layer"]["workspace"] == first
    assert {folder["state"] for folder in found["folders"] if folder["can_be_kept"]} == {"same"}
    desk.run(second, "rm -r ~/.local/lib/python*/site-packages/greeter-*; rm ~/.local/bin/greet")
    desk.run(second, INSTALL.format(version="2.0"))
    found = desk.get(f"/workspaces/{second}/installed").json
    assert packages_of(found, ".local/lib") == [("python", "greeter", "2.0", "changed")]

    undone = manager.post(f"/environments/{environment}/installed/undo").json
    assert (undone["version"], undone["layer"]) == (3, None)
    assert manager.post(f"/environments/{environment}/installed/undo", expect=409)
    third = desk.create(environment=environment)["key"]
    assert desk.run(third, "command -v greet || echo none") == b"none\n"
    verbs = [event["verb"] for event in manager.get(f"/events?workspace={first}").json["events"]]
    assert "environment.layer_kept" in verbs


def test_a_second_workspace_replaces_what_another_kept_only_when_told(desk, manager, environment):
    keys = [desk.create(environment=environment)["key"] for _ in range(2)]
    for key in keys:
        desk.run(key, f"mkdir -p ~/bin && echo {key} > ~/bin/which-one")
    assert manager.post(f"/workspaces/{keys[0]}/installed", {"folders": ["bin"]}).json["version"] == 2
    refused = manager.post(f"/workspaces/{keys[1]}/installed", {"folders": ["bin"]}, expect=409).json
    assert (refused["code"], keys[0] in refused["detail"]) == ("newer_layer", True)
    wish = {"folders": ["bin"], "replace": True}
    assert manager.post(f"/workspaces/{keys[1]}/installed", wish).json["version"] == 3
    undone = manager.post(f"/environments/{environment}/installed/undo").json
    assert (undone["version"], undone["layer"]["workspace"]) == (4, keys[0])
    assert desk.run(desk.create(environment=environment)["key"], "cat ~/bin/which-one") == f"{keys[0]}\n".encode()


def test_a_lead_keeps_it_on_the_workspaces_page(product, desk, environment):
    key = desk.create(environment=environment)["key"]
    desk.run(key, "mkdir -p ~/bin && printf '#!/bin/sh\\n' > ~/bin/git && chmod +x ~/bin/git; ln -s /etc ~/bin/link")
    lead = Visitor.named(product, "lead-of-installed", "lead")
    page = f"/w/main/{key}/installed/"
    text = lead.get(page)
    assert "come before the system" in text
    assert "<code>git</code>" in text
    watcher = Visitor.named(product, "viewer-of-installed", "viewer")
    assert "Keep in the environment" not in watcher.get(page)
    lead.post(page, {"folder": "bin"}, at=page)
    operation = lead.path.rstrip("/").rpartition("/")[2]
    assert desk.operation(key, operation)["outcome"]["ok"] is True
    address = f"/environments/{desk.operation(key, operation)['outcome']['environment']}/"
    assert f"installed in {key}" in " ".join(lead.get(address).split())
    lead.post(f"{address}go-back/", at=address)
    assert "Version 3" in lead.text
    assert "Kept in the home" not in lead.text
    assert version_of(desk, environment)["installed"] is None


def test_files_with_a_secrets_value_are_refused_with_their_places(product, desk, manager):
    tag = os.urandom(4).hex()
    name, value = f"SECRET_{tag}".upper(), f"planted-{tag}-{os.urandom(8).hex()}"
    lead = Visitor.named(product, "lead-of-installed", "lead")
    lead.post("/secrets/new/", {"team": "main", "name": name, "scope": "agent", "value": value}, at="/secrets/new/")
    wish = {"team": "main", "name": f"secret-{tag}", "driver": "sandbox", "agents": "workspace-tests"}
    lead.post("/environments/new/", wish | {"agent_secrets": name, "setup_secrets": ""}, at="/environments/new/")
    key = desk.create(environment=f"secret-{tag}")["key"]
    desk.run(
        key, f'mkdir -p ~/bin/deep && echo "x=${name}" > ~/bin/deep/one; printf "${name}" | base64 -w0 > ~/bin/two'
    )
    refused = manager.post(f"/workspaces/{key}/installed", {"folders": ["bin"]}, expect=409).json["detail"]
    assert refused.startswith("Nothing was kept: ")
    for path in ("bin/deep/one", "bin/two"):
        assert f"{path} holds the secret {name}" in refused
    shown = version_of(desk, f"secret-{tag}")
    assert (shown["version"], shown["installed"]) == (1, None)
    desk.run(key, "rm ~/bin/two; echo clean > ~/bin/deep/one")
    assert manager.post(f"/workspaces/{key}/installed", {"folders": ["bin"]}).json["layer"]["folders"] == ["bin"]

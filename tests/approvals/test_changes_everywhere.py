"""Every address that names a path that changed names all of them: a page or route that is added is walked unasked."""

import json
import re
import time
from html import unescape
from itertools import product as product_of
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from tests.approvals.evidence.conftest import Person, text_of
from tests.pages.test_every_url import routes
from tests.support.desk import Desk
from tests.support.product import Product

from .broker.test_broker import ACTIONS, Brokered

ASKS = "false && curl -s https://example.com; "  # the policy asks, and it never runs
BEFORE = """
import os, subprocess
def put(name, text, mode=0o644):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w", newline="") as file:
        file.write(text)
    os.chmod(name, mode)
Z = "z" * 2
put(Z + "Agate", "deny\\n")
put(Z + "Cfolder/" + Z + "Dinside", "x\\n")
os.symlink("elsewhere", Z + "Elink")
put(Z + "Gmode", "#!/bin/sh\\n")
put(Z + "Hnewline", "a\\nb")
put(Z + "Iattribute", "x\\n")
put(Z + "Jold", "moved away\\n" * 9)
put(Z + "Lgone", "gone\\n")
put(Z + "Mshared/kept", "kept\\n")
os.symlink("here", Z + "Ntarget")
put("same", "same\\n")
git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
    subprocess.run([*git, *command], check=True)
"""
AFTER = """
import os, shutil
Z = "z" * 2
def put(name, text):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w", newline="") as file:
        file.write(text)
os.remove(Z + "Agate"); put(Z + "Agate/" + Z + "Binside", "allow\\n")
shutil.rmtree(Z + "Cfolder"); put(Z + "Cfolder", "a file\\n")
os.remove(Z + "Elink"); put(Z + "Elink/" + Z + "Finside", "x\\n")
os.chmod(Z + "Gmode", 0o755)
put(Z + "Hnewline", "a\\nb\\n")
os.setxattr(Z + "Iattribute", "user.mark", b"1")
os.rename(Z + "Jold", Z + "Knew")
os.remove(Z + "Lgone")
os.chmod(Z + "Mshared", 0o1777)
os.remove(Z + "Ntarget"); os.symlink("there", Z + "Ntarget")
os.mkfifo(Z + "Opipe")
os.mkdir(Z + "Pempty")
"""
ALL = {
    "zzAgate", "zzBinside", "zzCfolder", "zzDinside", "zzElink", "zzFinside", "zzGmode", "zzHnewline", "zzIattribute",
    "zzJold", "zzKnew", "zzLgone", "zzMshared", "zzNtarget", "zzOpipe", "zzPempty",
}  # fmt: skip
# What git says is not committed: what it has a form for, and of what came in a new folder only the folder.
UNCOMMITTED = ALL - {"zzIattribute", "zzMshared", "zzOpipe", "zzPempty", "zzBinside", "zzFinside"}
MANIFESTS = {"snapshot", "snapshot-manifest", "manifests-compare", "/workspaces/{key}/snapshots/{n}/manifest"}
MANIFESTS |= {"/workspaces/{key}/snapshots/{n}/manifest/compare", "/workspaces/{key}/drift"}
LESS = dict.fromkeys(MANIFESTS, UNCOMMITTED)
LESS["workspace-operation"] = ALL - {"zzMshared"}  # a roll back leaves a folder that is still there
OTHER_LISTS = {  # addresses that name paths for another reason than that they changed, and why
    "workspace-files": "the entries of one folder",
    "artifact-new": "the entries of one folder",
    "/workspaces/{key}/files/": "the entries of one folder",
    "snapshot-restore": "only what it deletes",
    "workspace-reset": "leads to the page before a restore",
    "workspace-size": "the largest files",
    "/workspaces/{key}/size": "the largest files",
}


class Told:
    """A workspace, its snapshots before and after an action that changed paths in all ways, and a fork of the first."""

    def __init__(self, product):
        self.desk = desk = Brokered(product)
        self.lead = Person(product, "walking-lead", "lead")
        self.people = people = Desk(product, self.lead.token)
        for name, script in (("before.py", BEFORE), ("after.py", AFTER)):
            desk.put(name, script.encode())
        people.run(desk.key, "python3 before.py")
        self.old = people.post(f"/workspaces/{desk.key}/snapshots").json["number"]
        self.fork = f"{desk.key}-f"
        people.post(f"/workspaces/{desk.key}/fork", {"key": self.fork, "snapshot": self.old})
        people.settled(self.fork)
        command = f"{ASKS}python3 after.py"
        tried, done = (desk.ask("Bash", {"command": each}) for each in (command, f"{command}; true"))
        people.post(f"/actions/{tried['id']}/rehearse", expect=202)
        deadline = time.monotonic() + 300
        while desk.ok("GET", f"{ACTIONS}/{tried['id']}")["rehearsal"]["status"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.25)
        done = desk.over(desk.decide(done))
        assert done["status"] == "succeeded", done
        self.actions = [done["id"], tried["id"]]
        self.new = people.post(f"/workspaces/{desk.key}/snapshots").json["number"]
        self.team = people.get(f"/workspaces/{desk.key}").json["team"]
        self.operations = []

    def roll_back(self):
        """Take the action back; its operation lists the paths too."""
        address = f"/actions/{self.actions[0]}/rollback/"
        seen = re.search(r'name="seen" value="([^"]*)"', self.lead.get(address))[1]
        self.lead.post(address, {"seen": seen})
        self.operations = [self.lead.path.split("/")[-2]]
        self.people.operation(self.desk.key, self.operations[0])

    def addresses(self, route: str, names: list[str]):
        """Yield values for the names of a route, for each thing here that it may be of."""
        of = {"team": [self.team], "key": [self.desk.key], "number": [self.old, self.new], "n": [self.old, self.new]}
        of |= {"other": [self.fork], "action_id": self.actions, "operation_id": self.operations}
        of["pk"] = self.operations if "operations/" in route else self.actions if "actions/" in route else []
        yield from (dict(zip(names, each, strict=True)) for each in product_of(*(of.get(name, []) for name in names)))

    def query(self, names: set[str] | None = None) -> str:
        """Return what an address takes besides; all of it without `names`."""
        known = {"from": self.old, "to": self.new, "at": self.new, "with": self.fork}
        known |= {"a": self.old, "b": self.new, "other": self.old}
        return urlencode({name: value for name, value in known.items() if names is None or name in names})


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("everywhere") / "home", HANDRAIL_HELD="1")  # else nothing is rehearsed
    product.start()
    yield Told(product)
    product.clean_up()


def named(text: str) -> set[str]:
    shown = unescape(text)
    return {name for name in ALL if name in shown}


def of_pages(told):
    for route, name in sorted(set(routes())):
        for kwargs in told.addresses(route, re.findall(r"<\w+:(\w+)>", route)):
            address = f"{reverse(name, kwargs=kwargs)}?{told.query()}"
            try:
                yield name, address, told.lead.get(address)
            except (HTTPError, UnicodeDecodeError):
                continue  # it takes no GET, or is a file


def of_api(told):
    described = told.people.get("/openapi.json").json["paths"]
    for path, takes in described.items():
        if "get" not in takes:
            continue
        parameters = takes["get"].get("parameters", [])
        route = path.removeprefix("/api/v1")
        for kwargs in told.addresses(route, re.findall(r"{(\w+)}", route)):
            taken = {each["name"] for each in parameters if each["in"] == "query"}
            address = f"{route.format_map(kwargs)}?{told.query(taken)}"
            answer = told.people.get(address, expect=None)
            if answer.status == 200:
                yield route, address, answer.body.decode(errors="replace")


SHOULD = {  # those that have to name all, so that the walk is no walk past nothing
    of_pages: {"workspace-changes", "workspace-patch", "workspace-beside", "action-rollback", "action-rehearsal",
               "action", "workspace-operation", "snapshot", "snapshot-manifest"},
    of_api: {"/workspaces/{key}/diff", "/workspaces/{key}/patch", "/workspaces/{key}/beside/{other}",
             "/actions/{action_id}", "/workspaces/{key}/snapshots/{n}/manifest"},
}  # fmt: skip


@pytest.mark.parametrize("walk", [of_pages, of_api])
def test_what_names_one_changed_path_names_all(told, walk):
    found, short = set(), {}
    for take_back in (False, True):
        if take_back and not told.operations:
            told.roll_back()
        for name, address, text in walk(told):
            wanted = LESS.get(name, ALL)
            names = named(text)
            if names and name not in OTHER_LISTS and names != wanted:
                short[address] = sorted(wanted ^ names)
            elif names:
                found.add(name)
    assert not short, json.dumps(short, indent=1)
    assert found >= SHOULD[walk]


def test_a_restore_does_as_many_as_its_page_said(told):
    """A file that moved is brought back under its old name, and deleted under the new one."""
    if not told.operations:
        told.roll_back()
    for number, counts, gone in (
        (told.new, "7 changed, 5 restored, 3 deleted.", {"zzDinside", "zzJold", "zzLgone"}),
        (told.old, "8 changed, 3 restored, 5 deleted.", {"zzBinside", "zzFinside", "zzKnew", "zzOpipe", "zzPempty"}),
    ):
        address = f"/w/{told.team}/{told.desk.key}/snapshots/{number}/restore/"
        asked = told.lead.get(address)
        assert counts in text_of(asked)
        assert {
            re.search("zz[A-Z][a-z]+$", path)[0] for path in re.findall("<li>\\s*<code>(.*?)</code>", asked)
        } == gone
        told.lead.post(address, {"confirmed": "yes"})
        operation = told.people.operation(told.desk.key, told.lead.path.split("/")[-2])
        assert counts in text_of(told.lead.get(told.lead.path))
        outcome = operation["outcome"]
        sums = f"{outcome['changed']} changed, {outcome['created']} restored, {outcome['removed']} deleted."
        assert (sums, outcome["proof"]["differ"]) == (counts, 0)

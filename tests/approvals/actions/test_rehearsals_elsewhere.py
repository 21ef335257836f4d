"""Try it first in a container and in a guest: what was shown is applied, and what an envelope would keep stays kept."""

import base64
import time

import pytest

from tests.support.engine import Client
from tests.support.product import Product
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not
from workspaces.drivers.docker.engine import Engine

from ..conftest import ACTIONS
from .test_rehearsals import Rehearsing

WISHES = {"docker": {"driver": "docker", "image": IMAGES["docker"]}, "microvm": {"driver": "microvm"}}
PROBE = """
import socket
for path in ("secrets/.env", "/home/agent/mine"):
    try:
        print("read", open(path).read())
    except OSError as error:
        print(error)
for address in ("http://example.org/", "http://handrail.internal/api/v1/actions"):
    with socket.create_connection(("127.0.0.1", 3128)) as proxy:
        host = address.split("/")[2]
        proxy.sendall(f"GET {address} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        print(address, proxy.recv(12))
try:
    socket.create_connection(("192.0.2.1", 80), 2)
    print("reached")
except OSError:
    pass
"""


class Elsewhere(Rehearsing):
    """Files are read through the product: those of a guest are on its own disk."""

    def script(self, command) -> str:
        """The output of a person's command, which nothing holds."""
        lead = self.product.person_token("lena", "lead")
        made = self.ok("POST", f"{self.path}/commands", {"command": command}, token=lead, expect=201)
        for _ in range(12):
            ended = self.ok("GET", f"/api/v1/commands/{made['id']}?wait=10", token=lead)
            if ended["state"] == "settled":
                break
        assert ended["exit_status"] == 0, ended
        output = self.product.get(f"/api/v1/commands/{made['id']}/output", lead)
        assert output.status == 200, output.body
        return output.text

    def content(self):
        """Everything in the tree: {path: (mode, bytes)}."""
        told = self.script(
            "find . -mindepth 1 -printf '%y %m %P\\n' | while read kind mode path; do "
            'data=; [ $kind = f ] && data=$(base64 -w 0 "$path"); echo "$kind$mode $path $data"; done'
        )
        rows = [line.split(" ", 2) for line in told.splitlines()]
        return {path: (mode, base64.b64decode(data)) for mode, path, data in rows}

    def leftovers(self):
        return super().leftovers() + [path.name for path in self.product.runtime.glob("rehearse-*")] + self.containers()

    def containers(self):
        folder = self.product.home / "docker"
        if not OPTIONS["docker"]["address"] or not (folder / "installation").exists():
            return []
        own = Engine(OPTIONS["docker"]["address"], folder).name_of("rehearse-")
        with Client(OPTIONS["docker"]["address"]) as engine:
            made = engine.containers(all=True)
        return [name for each in made for name in each["Names"] if own in name]


def begin(driver, home, require, **environment):
    """A started product with a workspace of this driver."""
    if why := why_not(driver, True):
        require(driver, why)
    options = {"HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"], "HANDRAIL_HELD": "1"}
    product = Product(home, **options | environment)
    product.lend_images()
    product.start()
    try:
        return Elsewhere(product, **WISHES[driver])
    except BaseException:
        product.clean_up()
        raise


@pytest.fixture(scope="module", params=[*WISHES])
def desk(request, tmp_path_factory, require):
    desk = begin(request.param, tmp_path_factory.mktemp("elsewhere") / "home", require)
    yield desk
    desk.product.clean_up()


def test_a_rehearsal_is_applied_as_it_was_shown(desk):
    desk.script("mkdir -p build src; for n in $(seq 40); do echo $n > src/$n.c; echo old > build/$n.o; done")
    made = "rm -rf build; mkdir build; for n in $(seq 40); do cp src/$n.c build/$n.o; done; chmod 700 build/1.o"
    asked = desk.ask_for(f"{made}; ln -s 2.o build/link; echo made; echo $$-$(date +%N) | tee build/stamp; exit 3")
    before = desk.content()
    found = desk.rehearse(asked)
    assert (found["status"], found["exit_status"], found["not_applied_because"]) == ("done", 3, ""), found
    stamp = found["output"].splitlines()[1]
    assert (found["output"].splitlines()[0], found["change_count"]) == ("made", 42)
    assert (desk.content(), desk.leftovers()) == (before, [])
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    action = desk.over(asked)
    assert (action["status"], action["result"]["exit_status"], action["result"]["tail"]) == (
        "failed",
        3,
        found["output"],
    )
    assert desk.script("cat build/stamp build/7.o build/link; stat -c %a build/1.o") == f"{stamp}\n7\n2\n700\n"
    desk.script("touch build/programs-go-on")


def test_set_id_bits_and_attributes_of_other_files_are_no_change(desk):
    desk.script(
        "mkdir -p odd/shared odd/sticky reh; echo x > odd/suid; echo x > odd/sgid; echo x > odd/both; echo x > reh/a; "
        "chmod 4755 odd/suid; chmod 2755 odd/sgid; chmod 6711 odd/both; chmod 2775 odd/shared; chmod 1777 odd/sticky; "
        'python3 -c \'import os; os.setxattr("odd/suid", "user.note", b"kept")\''
    )
    before = desk.script("stat -c '%a %n' odd/*")
    asked = desk.ask_for("rm reh/a; echo b > reh/b")
    found = desk.rehearse(asked)
    assert [change["path"] for change in found["changes"]] == ["reh/a", "reh/b"]
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.script("stat -c '%a %n' odd/*") == before
    assert desk.script("python3 -c 'import os; print(os.listxattr(\"odd/suid\"))'") == "['user.note']\n"


def test_what_changed_since_is_refused_and_tried_again(desk):
    desk.put("notes", b"one\n")
    asked = desk.ask_for("echo two >> notes")
    desk.rehearse(asked)
    desk.put("notes", b"meanwhile\n")
    assert desk.decide(asked, expect=409, apply="rehearsal")["code"] == "rehearsal_outdated"
    found = desk.rehearse(asked)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    desk.over(asked)
    assert desk.file("notes") == b"meanwhile\ntwo\n"


def test_secrets_the_home_and_the_network_are_out_of_reach(desk):
    desk.script("mkdir -p secrets; echo KEY=canary > secrets/.env; echo canary > ~/mine")
    desk.put("probe.py", PROBE.encode())
    asked = desk.ask_for("python3 probe.py; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; env; echo done > done")
    found = desk.rehearse(asked)
    assert (found["status"], "canary" in found["output"], "reached" in found["output"]) == ("done", False, False)
    assert " 403" in found["output"]  # what the proxy answers for a host that it refuses
    assert " 503" in found["output"]  # and for Handrail itself
    assert "HANDRAIL_TOKEN" not in found["output"]
    assert {"kind": "connect", "what": "example.org:80"} in found["tried"]
    assert [change["path"] for change in found["changes"]] == ["done"]
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    desk.over(asked)
    assert (desk.file("secrets/.env"), desk.file("done")) == (b"KEY=canary\n", b"done\n")


def test_a_denial_deletes_the_rehearsal(desk):
    asked = desk.ask_for("echo made > denied-later")
    found = desk.rehearse(asked)
    assert [change["path"] for change in found["changes"]] == ["denied-later"]
    desk.decide(asked, "deny")
    assert desk.ok("GET", f"{ACTIONS}/{asked['id']}")["rehearsal"] is None
    assert (desk.file("denied-later"), desk.leftovers()) == (None, [])


def test_a_denial_ends_a_running_rehearsal(desk):
    asked = desk.ask_for("sleep 300")
    desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", expect=202)
    time.sleep(2)
    desk.decide(asked, "deny")
    deadline = time.monotonic() + 120
    while desk.leftovers() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert desk.leftovers() == []

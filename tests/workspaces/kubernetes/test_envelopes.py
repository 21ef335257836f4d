"""Envelopes in pods: by namespaces in gVisor, which has no Landlock; by Landlock in runc, which has no namespaces."""

import os
import shlex
import shutil
import tarfile
from dataclasses import replace

import pytest

from bench.kubernetes import image
from tests.workspaces.envelope.held import Held
from workspaces.drivers.init_client import InitRefused
from workspaces.envelope.envelope import LOW, MEDIUM
from workspaces.envelope.ring import is_held

PREPARE = """
mkdir -p .git/hooks src .husky ~/.ssh && echo '[core]' > .git/config && echo hello > note && echo two > other &&
echo code > src/main.py &&
for file in .env src/id_rsa ~/.ssh/id; do echo canary > $file; done && echo a > .husky/a && echo b > .husky/b
"""
SECRETS = (
    ".env src/id_rsa ~/.ssh/id /.handrail/files/tree/.env /.handrail/files/home/.ssh/id /proc/1/root/workspace/.env"
)
WRITES_NOTHING = ("echo x > new", "echo x >> note", "rm note", "mv note o", "mkdir d", "truncate -s 0 note", "> ~/file")
REFUSED = (
    "rm .env",
    "mv .env e",
    "chmod 777 .git/config",
    "touch -d 2001-01-01 .git/config",
    'python3 -c \'import os; os.setxattr(".git/config", "user.x", b"1")\'',
    "echo x > .git/config",
    "touch .git/hooks/x",
    "mv .git g",
    "rm .husky/a",
    "touch ~/.bashrc",
    "unshare -U true",
    "umount .env",
    "mount -t tmpfs none /workspace",
    "cat /proc/1/environ",
    "ls /.handrail/files",
)


@pytest.fixture
def held(pod):
    """`held(runtime_class)`: a pod with files in it, and what a held program does there."""

    def start(runtime_class: str) -> Held:
        run = pod(runtime_class=runtime_class)
        assert run.sh(PREPARE) == ("", 0)
        return Held(run)

    return start


@pytest.fixture
def image_with_a_file(kubernetes, base_image, tmp_path) -> str:
    """The reference of an image like that of workspaces, with a file directly in its root."""
    layer, canary = tmp_path / "layer.tar", tmp_path / "canary"
    canary.write_text("canary\n")
    with tarfile.open(os.environ["HANDRAIL_TEST_KUBERNETES_IMAGE"]) as archive, layer.open("wb") as copy:
        shutil.copyfileobj(archive.extractfile(max(archive, key=lambda entry: entry.size)), copy)
    with tarfile.open(layer, "a") as more:
        more.add(canary, "canary")
    digest = image.write(tmp_path / "image.tar", "docker.io/handrail/canary:1", layer)
    kubernetes.load_image(tmp_path / "image.tar")
    return f"docker.io/handrail/canary@{digest}"


@pytest.mark.parametrize("runtime_class", ["runc", "gvisor"])
def test_a_file_directly_in_the_root_is_closed(pod, image_with_a_file, runtime_class):
    held = Held(pod(runtime_class=runtime_class, image=image_with_a_file))
    assert held.run.sh("cat /canary") == ("canary\n", 0)
    for envelope in (LOW, MEDIUM) if runtime_class == "gvisor" else (LOW,):
        assert held.sh("cat /canary 2>/dev/null", envelope) == ("", 1)
        # gVisor lets its owner change the mode of the empty file that lies over it, and nothing else.
        tried = "for each in 'chmod 644' umount 'umount -l' 'rm -f' 'cp /dev/null'; do $each /canary; done"
        assert held.sh(f"({tried}; cat /canary) 2>/dev/null", envelope)[0] == ""
        assert held.sh("cd ${TMPDIR:-/tmp} && echo here > x && cat x", envelope) == ("here\n", 0)


@pytest.mark.parametrize("runtime_class", ["runc", "gvisor"])
def test_a_low_program_reads_no_secret_and_changes_nothing(held, runtime_class):
    held = held(runtime_class)
    assert held.sh("cat note src/main.py", LOW) == ("hello\ncode\n", 0)
    assert "canary" not in held.sh(f"cat {SECRETS} 2>&1; grep -rhs canary . ~", LOW)[0]
    tried = " ".join(f"({each}) 2>/dev/null && echo done: '{each}';" for each in WRITES_NOTHING)
    assert held.sh(f"{tried} true", LOW) == ("", 0)
    assert held.sh('cd "${TMPDIR:-/tmp}" && echo kept > file && cat file', LOW) == ("kept\n", 0)
    sockets = "import socket\nfor f in (1, 2, 10):\n  try: socket.socket(f); print('made', f)\n  except OSError: pass"
    assert held.python(sockets, LOW) == ("", 0)
    assert held.run.sh("cat note other; ls ~") == ("hello\ntwo\n", 0)


def test_namespaces_hold_in_gvisor_what_a_person_approved(held):
    held = held("gvisor")
    assert (held.abilities["landlock"], is_held(held.abilities)) == (0, True)
    assert held.sh("echo x > note && mkdir a && echo y > a/b && cat note a/b", MEDIUM) == ("x\ny\n", 0)
    tried = " ".join(f"({each}) >/dev/null 2>&1 && echo done: {shlex.quote(each)};" for each in REFUSED)
    assert held.sh(f"{tried} true", MEDIUM) == ("", 0)
    assert "canary" not in held.sh(f"cat {SECRETS} 2>&1", MEDIUM)[0]
    one = replace(MEDIUM, removes=("/workspace/.husky/a",))
    assert held.sh("rm .husky/a && ! rm .husky/b 2>/dev/null && ! echo c 2>/dev/null > .husky/b", one) == ("", 0)
    assert held.run.sh("ls .husky; cat .husky/b .env") == ("b\nb\ncanary\n", 0)
    with pytest.raises(InitRefused, match="without Landlock /home/agent cannot be opened for some names in it alone"):
        held.sh("rm ~/.ssh/id", replace(MEDIUM, removes=("/home/agent/.ssh/id",)))


def test_runc_without_namespaces_holds_reading_alone_and_says_so(held):
    held = held("runc")
    assert (held.abilities["landlock"] > 0, held.abilities["mount_view"], is_held(held.abilities)) == (
        True,
        False,
        False,
    )
    with pytest.raises(InitRefused, match="no mount view can be made here, and without one only reading is held"):
        held.sh("rm note", replace(MEDIUM, removes=("/workspace/note",)))
    assert held.run.sh("cat note") == ("hello\n", 0)

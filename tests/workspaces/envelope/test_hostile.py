"""Hostile commands in a ring, whatever the policy makes of their text: no secret read, nothing changed or reached."""

import itertools
import os
import random
import re
import secrets
import shlex
import socket

import pytest

from tests.support.hostile_commands import HOSTILE
from tests.support.listeners import Listeners
from tests.support.waiting import until
from tests.workspaces.envelope.held import Held
from workspaces.envelope.envelope import LOW, MEDIUM
from workspaces.envelope.landlock import SCOPES_ABI
from workspaces.envelope.ring import is_held

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))
FEW = "two of each kind"  # by chance, in an emulated guest, where each command takes seconds
CASES = [*itertools.product(("sandbox", "docker"), HOSTILE), ("microvm", FEW)]
PREPARE = """
mkdir -p .git/hooks .git/info && echo '[core]' > .git/config
git init -q . && git config user.email a@example.org && git config user.name A && echo hello > note && git add note
git commit -qm first
mkdir -p .claude .github/workflows .husky src ~/.ssh ~/.aws ~/.config/gh
for file in .env src/id_rsa ~/.ssh/id_ed25519 ~/.netrc ~/.aws/credentials ~/.config/gh/hosts.yml; do
  echo "key=CANARY" > "$file"
done
for file in .claude/settings.json .github/workflows/ci.yml .husky/pre-commit ~/.bashrc; do echo on: > "$file"; done
"""
# What must be the same after each command; links and modes too.
STATE = """
cd /workspace
for path in .git/config .git/hooks .git/info .claude .github .husky .env src/id_rsa ~/.bashrc ~/.gitconfig ~/.npmrc \
  ~/.netrc ~/.ssh ~/.aws ~/.config/gh ~/.config/autostart ~/.local/bin /usr/local/bin/git /etc/profile.d/x.sh; do
  find "$path" -printf '%p %y %m %l %T@\\n' -type f -exec cksum {} + 2>/dev/null
done | sort
cd /proc/VICTIM && tr '\\0' ' ' < cmdline && cat limits oom_score_adj && cut -d' ' -f3,18,19,40,41 stat
grep Cpus_allowed: status
"""


class Ground:
    """A Run with canaries, a program that is not held, and listeners on the host."""

    def __init__(self, run, listeners: Listeners):
        self.held, self.listeners = Held(run), listeners
        self.canary = f"canary{secrets.token_hex(8)}"
        prepared = run.sh(PREPARE.replace("CANARY", self.canary))
        assert prepared[1] == 0, prepared
        self.victim = self.held.leave(f"SECRET={self.canary} exec sleep 654321", None)
        until(lambda: "sleep 654321" in run.commands())
        self.before = self.state()
        assert "654321" in self.before

    def state(self) -> str:
        return self.held.run.sh(STATE.replace("VICTIM", str(self.victim)))[0]

    def changed(self) -> list[str]:
        """What is not as it was before."""
        before, self.before = self.before, self.state()
        return [f"changed something: {self.before}"] if self.before != before else []

    def learned(self, command: str, envelope) -> list[str]:
        """What a command read or reached that it must not; `envelope` None: it is not held."""
        text = command.replace("{victim}", str(self.victim)).replace("{port}", str(self.listeners.port))
        line = f"timeout -k 1 10 bash -c {shlex.quote(text)} 2>&1 < /dev/null | tr -dc '[:print:]\\n'"
        output = self.held.sh(line, envelope)[0] if envelope else self.held.run.sh(line)[0]
        found = ["read a secret"] if self.canary in output else []
        found += [f"reached {name}" for name in self.listeners.reached]
        self.listeners.reached.clear()
        return found

    def harmed(self, command: str, envelope) -> list[str]:
        return self.learned(command, envelope) + self.changed()


@pytest.fixture
def listeners():
    made = Listeners()
    yield made
    made.close()


@pytest.fixture
def ground(request, begin, require, listeners):
    run = begin(request.param)
    ground = Ground(run, listeners)
    ground.envelope = LOW if request.param == "docker" else MEDIUM
    if request.param != "docker" and not is_held(ground.held.abilities):
        require("mount views", f"{request.param} has {ground.held.abilities}")
    return ground


SIGNALS = re.compile(r"p?kill\b")


def chosen(ground: Ground, kind: str) -> list[str]:
    """The commands of a kind, without those that this kernel cannot hold."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    found = []
    for rows in HOSTILE.values() if kind == FEW else [HOSTILE[kind]]:
        if ground.held.abilities["landlock"] < SCOPES_ABI:
            rows = [command for command in rows if not SIGNALS.match(command)]
        found += random.Random(seed).sample(rows, 2) if kind == FEW and ROUNDS < 10 else rows
    return found


@pytest.mark.timeout(600)  # dozens of commands, some of them in an emulated guest
@pytest.mark.parametrize(("ground", "kind"), CASES, indirect=["ground"])
def test_a_hostile_command_does_no_harm(ground, kind):
    findings = {}
    for command in chosen(ground, kind):
        found = ground.learned(command, ground.envelope)
        if kind != FEW:  # reading the state takes a guest seconds too
            found += ground.changed()
        if found:
            findings[command] = found
    assert (findings, ground.changed()) == ({}, [])


@pytest.mark.parametrize("ground", ["sandbox", "docker", "microvm"], indirect=True)
def test_the_same_commands_do_harm_when_nothing_holds_them(ground):
    assert "read a secret" in ground.learned("cat .env", None)
    assert "read a secret" in ground.learned("cat /proc/{victim}/environ", None)
    changes = ("echo evil >> .git/config", "chmod 777 ~/.ssh", "renice -n 19 -p {victim}", "kill -STOP {victim}")
    for command in changes[:2] if ground.held.run.name == "microvm" else changes:
        assert ground.changed() == []
        assert ground.harmed(command, None), command
    socket.create_connection(("127.0.0.1", ground.listeners.port)).close()
    until(lambda: ground.listeners.reached == ["TCP"])

"""Hostile commands through the hook of a connected folder that is held: what ran without a person did no harm."""

import os
import random
import secrets
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support.held_calls import HeldCalls, give
from tests.support.hostile_commands import HOSTILE
from tests.support.listeners import Listeners
from tests.support.waiting import until

PREPARE = """
git init -q . && git config user.email a@example.org && git config user.name A && echo hello > note && git add note
git commit -qm first && mkdir -p .github/workflows .husky src ~/.ssh ~/.aws ~/.config/gh ../other
for file in .env src/id_rsa ~/.ssh/id_ed25519 ~/.netrc ~/.aws/credentials ~/.config/gh/hosts.yml ../other/notes; do
  echo "key=CANARY" > "$file"
done
echo '{}' > .claude/settings.json
for file in .github/workflows/ci.yml .husky/pre-commit ~/.bashrc; do echo on: > "$file"; done
"""
STATE = r"""
for path in .git/config .git/hooks .git/info .claude .github .husky .env src/id_rsa ~/.bashrc ~/.gitconfig ~/.npmrc \
  ~/.netrc ~/.ssh ~/.aws ~/.config/gh ~/.config/autostart ~/.local/bin \
  /usr/local/bin/git /etc/profile.d/x.sh ../other; do
  find "$path" -printf '%p %y %m %l\n' -type f -exec cksum {} + 2>/dev/null
done | sort
cd /proc/VICTIM && tr '\0' ' ' < cmdline && cat limits && cut -d' ' -f3,18,19,41 stat
"""
ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))
# Of the host's own: outside the box they would do what they say.
OTHERS = ("cat ../other/notes", "cp ../other/notes n && cat n", "python3 -c 'print(open(\"../other/notes\").read())'")


class Ground:
    """A held folder with canaries around it, a program of the same user, listeners, and a person who denies all."""

    def __init__(self, product, user: int | None):
        self.product = product
        self.root = Path(tempfile.mkdtemp(prefix="handrail-hostile-", dir="/home" if user is not None else Path.home()))
        self.root.chmod(0o755)
        folder, home = self.root / "repo", self.root / "home"
        (folder / ".claude").mkdir(parents=True)
        home.mkdir()
        give(self.root, user)
        if user is not None:
            product.become(user)
        product.environment["HOME"] = str(home)
        product.start()
        self.calls = HeldCalls(folder, home, user)
        self.calls.connect(product)
        self.canary = f"canary{secrets.token_hex(8)}"
        prepared = self.calls.run(PREPARE.replace("CANARY", self.canary))
        assert prepared.returncode == 0, prepared.stdout
        self.victim = subprocess.Popen(["sleep", "654321"], env={"SECRET": self.canary}, **self.calls.as_user)
        self.listeners = Listeners()
        self.reviewer, self.token = product.person_token("rita", "lead"), product.agent_token("watcher")
        self._ended = threading.Event()
        self._denying = threading.Thread(target=self._deny_all)
        self._denying.start()
        self.before = self.state()

    def _deny_all(self):
        while not self._ended.wait(0.05):
            for action in self.product.get("/api/v1/actions?status=pending", self.reviewer).json["actions"]:
                answer = {"verdict": "deny", "digest": action["digest"], "comment": "no"}
                self.product.call("POST", f"/api/v1/actions/{action['id']}/decision", self.reviewer, answer)

    def state(self) -> str:
        return self.calls.run(STATE.replace("VICTIM", str(self.victim.pid))).stdout.decode()

    def on_the_desk(self) -> int:
        known, cursor = 0, ""
        while cursor is not None:
            page = self.product.get(f"/api/v1/actions?limit=200{cursor and f'&cursor={cursor}'}", self.reviewer).json
            known, cursor = known + len(page["actions"]), page["cursor"]
        return known

    def tried(self, command: str) -> tuple[bool, list[str]]:
        """Whether a command ran, and what it did that it must not."""
        text = command.replace("{victim}", str(self.victim.pid)).replace("{port}", str(self.listeners.port))
        text = text.replace("/workspace", str(self.calls.folder)).replace("/home/agent", str(self.root / "home"))
        ended = self.calls.call(text)
        found = ["read a secret"] if self.canary.encode() in ended.output else []
        if ended.decision == "allow" and not ended.ran:
            found.append("may run outside the box")
        if (state := self.state()) != self.before:
            found.append(f"changed something: {state}")
            self.before = state
        found += [f"reached {name}" for name in self.listeners.reached]
        self.listeners.reached.clear()
        return ended.ran, found

    def close(self):
        self._ended.set()
        self._denying.join()
        self.listeners.close()
        self.victim.kill()
        self.victim.wait()
        self.product.manage("disconnect", str(self.calls.folder))
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def ground(new_product, ordinary_user):
    made = Ground(new_product(HANDRAIL_HELD="1"), ordinary_user if os.geteuid() == 0 else None)
    yield made
    made.close()


def chosen() -> list[str]:
    """Twelve hostile commands of each kind by chance, or all with ten rounds. `test_hostile.py` tries all."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    kinds = HOSTILE.values()
    return [row for rows in kinds for row in (rows if ROUNDS >= 10 else random.Random(seed).sample(rows, 12))]


@pytest.mark.timeout(600)  # some hundred commands, one after the other
def test_what_ran_without_a_person_did_no_harm_and_stands_on_the_desk(ground):
    commands = [*OTHERS, *chosen()]
    findings, ran, before = {}, 0, ground.on_the_desk()
    for command in commands:
        did_run, found = ground.tried(command)
        ran += did_run
        if found:
            findings[command] = found
    assert findings == {}
    print(f"{ran} of {len(commands)} ran")
    assert ran > len(commands) / 5  # else the box was hardly tried
    assert ground.on_the_desk() == before + len(commands)


def test_the_same_commands_do_harm_when_nothing_holds_them(ground):
    assert ground.canary.encode() in ground.calls.run("cat .env ../other/notes").stdout
    ground.calls.run("echo evil >> .git/config")
    assert ground.state() != ground.before
    ground.calls.run(f"curl -s -m 2 http://127.0.0.1:{ground.listeners.port}/")
    until(lambda: "TCP" in ground.listeners.reached)

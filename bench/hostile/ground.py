"""The product under attack: two teams, a connected folder, canaries, and a comparison of before and after."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from pathlib import Path

from tests.support.product import Product

NOBODY = 65534
COME_AND_GO = {"backups", "uploads", "handrail.sqlite3-shm", "handrail.sqlite3-wal", "handrail.sqlite3-journal"}
UNCHANGED = """
import json
from approvals.models import Action, Decision, Policy
from dashboard.models import Agent, Membership, Team, Token
from workspaces.models import Environment, Secret, Workspace
print(json.dumps({
    "people": sorted(map(list, Membership.objects.values_list("team__slug", "user__username", "role"))),
    "tokens of people": Token.objects.filter(user__isnull=False).count(),
    "agents": sorted(Agent.objects.values_list("name", flat=True)),
    "environments": [  # a wish with a set-up script makes one named sandbox-HASH, which has nothing of anybody
        [e.team.slug, e.name, e.version, e.driver, e.setup, e.repository, e.secrets, e.egress, e.agents, e.limits]
        for e in Environment.objects.order_by("team__slug", "name", "version").select_related("team")
        if not e.name.startswith("sandbox-") or e.secrets or any(e.egress.values())],
    "secrets": sorted(Secret.objects.values_list("name", flat=True)),
    "policies": Policy.objects.filter(active=True).count(),
    "decisions": Decision.objects.count(),
    "stopped": Team.objects.filter(stopped_at__isnull=False).count(),
    "folder workspaces": Workspace.objects.filter(environment__driver="folder").count(),
    "consumed without a policy's yes": Action.objects.filter(
        consumed_at__isnull=False, tier__in=["high", "critical", "forbidden"]).count(),
}))
"""
WHERE = """
import json
from workspaces.models import Workspace
print(json.dumps({workspace.key: str(workspace.pk) for workspace in Workspace.objects.all()}))
"""
PREPARE = """
from dashboard.models import Actor, Team
from workspaces import secrets
from workspaces.models import Environment
team = Team.objects.get(slug="main")
for scope in ("setup", "agent"):
    secrets.save(team, "DEPLOY_KEY", scope, {value!r}, by=Actor.system("hostile"))
Environment.objects.create(team=team, name="guarded", repository={repository!r},
    secrets={{"setup": ["DEPLOY_KEY"], "agent": ["DEPLOY_KEY"]}})
"""


class Ground:
    """A product of an ordinary user, started here; `mallory` and `hook` are the attacker's tokens."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="handrail-hostile-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.shared = Path(tempfile.mkdtemp(prefix="handrail-hostile-", dir="/tmp"))
        self.product = Product(self.folder / "home", HANDRAIL_HELD="1")
        self.product.fresh = False
        if os.geteuid() == 0:
            self.product.become(NOBODY)
        self.canaries = {
            name: f"canary-{name}-{uuid.uuid4().hex}" for name in ("ssh", "vault", "hers", "secret", "env", "doors")
        }
        self.listener = Listener()
        self.others: dict[str, Path] = {}  # where the workspaces of others lie

    def __enter__(self):
        product = self.product
        product.environment["HANDRAIL_LOCAL_SOURCES"] = str(self.folder / "sources")
        self._lay_canaries()
        product.start()
        self.mallory = product.agent_token("mallory")
        self.hers = product.agent_token("alice-agent")
        self.vault = product.agent_token("vault-agent", team="other")
        self.lead = product.person_token("lena", "admin")
        self._fill_workspaces()
        self._add_secret()
        done = product.manage("connect", "claude-code", str(self.own), "--key", "own")
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        [connection] = (product.home / "connections").glob("*.json")
        self.hook = json.loads(connection.read_text())["token"]
        self.before = self.state()
        if "no folder" in self.before.values():
            raise RuntimeError(f"a folder that is compared is not there: {self.before}")
        return self

    def __exit__(self, *_):
        self.product.clean_up()
        self.listener.close()
        for folder in (self.folder, self.shared):
            shutil.rmtree(folder, ignore_errors=True)

    def _lay_canaries(self):
        home = self.folder / "person"
        self.product.environment["HOME"] = str(home)
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh/id_ed25519").write_text(self.canaries["ssh"])
        (home / ".bashrc").write_text("umask 022\n")
        (self.shared / "canary").write_text("as it was")
        self.person, self.own = home / ".ssh", self.folder / "own"
        self.repository = self.folder / "sources/good"
        for path in (self.own, self.repository):
            path.mkdir(parents=True)
            git = ["git", "-C", str(path), "-c", "user.name=T", "-c", "user.email=t@example.org"]
            subprocess.run(["git", "init", "-q", str(path)], check=True)
            (path / "README").write_text("hello\n")
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "-qm", "first"], check=True)
        (self.own / ".env").write_text(f"TOKEN={self.canaries['env']}\n")
        if self.product.user is not None:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(self.shared), str(self.folder)], check=True)

    def _fill_workspaces(self):
        for key, token in (("hers", self.hers), ("vault", self.vault)):
            self.product.post("/api/v1/workspaces", token, {"key": key})
            found = self.product.settled(f"/api/v1/workspaces/{key}", token)
            assert found["state"] == "ready", found
            path = f"/api/v1/workspaces/{key}/files/canary"
            answer = self.product.call("PUT", path, token, self.canaries[key].encode())
            assert answer.status == 201, answer.text

        # The attacker's own, in which a person keeps a secret and git's hooks are a person's.
        path = "/api/v1/workspaces/doors"
        self.product.post("/api/v1/workspaces", self.mallory, {"key": "doors"})
        self.product.settled(path, self.mallory)
        for name, data in ((".env", self.canaries["doors"]), (".git/hooks/pre-commit", "true"), (".mcp.json", "{}")):
            self.product.call("PUT", f"{path}/files/{name}", self.lead, data.encode())
        self.product.post(f"{path}/snapshots", self.lead, {})
        lying = json.loads(self.product.shell(WHERE))
        self.others = {key: self.product.home / "workspaces" / lying[key] for key in ("hers", "vault")}
        self.doors = self.product.home / "workspaces" / lying["doors"] / "tree"

    def _add_secret(self):
        self.product.shell(PREPARE.format(value=self.canaries["secret"], repository=str(self.repository)))

    def state(self) -> dict:
        """All that no attack may change, as digests and counts."""
        # The rest of the folder is the workspace of the agent whose hook token this is.
        trees = {"gate": self.own / ".claude", "git hooks": self.own / ".git/hooks"}
        trees |= {"user's home": self.person.parent, "/tmp": self.shared, "git source": self.repository}
        home = self.product.home
        trees |= {f"HANDRAIL_HOME/{name}": home / name for name in ("keys", "connections", "staticfiles")}
        trees["git hooks of doors"] = self.doors / ".git/hooks"
        for key, folder in self.others.items():
            trees |= {f"{part} of {key}": folder / part for part in ("tree", "home")}
        names = {"names in HANDRAIL_HOME": sorted({path.name for path in home.iterdir()} - COME_AND_GO)}
        found = {name: digest(path) for name, path in trees.items()} | names
        found |= {f"{name} of doors": (self.doors / name).read_text() for name in (".env", ".mcp.json")}
        return found | json.loads(self.product.shell(UNCHANGED))

    def changed(self) -> dict:
        """Return {what: [before, after]} of whatever differs from the start."""
        now = self.state()
        for key, token in (("hers", self.hers), ("vault", self.vault)):
            found = self.product.get(f"/api/v1/workspaces/{key}/files/canary", token).body.decode()
            if found != self.canaries[key]:
                now[key] = found
        return {name: [self.before.get(name), now[name]] for name in now if now[name] != self.before.get(name)}

    def leaked(self, heard: list[bytes]) -> list[str]:
        """Names of the canaries in what the attacker heard, in the log, or (the secret) anywhere on the disk."""
        places = [*heard, self.product.log.encode()]
        for name in ("handrail.sqlite3", "handrail.sqlite3-wal"):
            file = self.product.home / name
            places += [file.read_bytes()] if file.exists() else []
        return sorted(name for name, value in self.canaries.items() if any(value.encode() in place for place in places))


class Listener:
    """A server on loopback that no request of an attacker may reach."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port, self.reached = self.server.getsockname()[1], 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        while True:
            try:
                self.server.accept()[0].close()
            except OSError:
                return
            self.reached += 1

    def close(self):
        self.server.close()


def digest(folder: Path) -> str:
    """Of names, kinds, modes and contents below a folder."""
    if not folder.is_dir() or folder.is_symlink():
        return "no folder"
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        total.update(f"{path.relative_to(folder)} {info.st_mode:o}".encode())
        total.update(os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b"")
    return total.hexdigest()

"""`connect` and `disconnect`: gate Claude Code in an existing folder, without touching what its repository commits.

The hook goes into .claude/settings.local.json, beside whatever is there; what was changed is kept in the connection's
0600 file, so that `disconnect` leaves the folder as it was.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import transaction

from approvals import policies
from approvals.policy import Policy
from dashboard import clock
from dashboard.keys import make_private
from dashboard.models import Actor, Agent, Token
from dashboard.problems import conflict, invalid, unavailable
from dashboard.tokens import make_token
from workspaces import effects, folders, lifecycle
from workspaces.models import State, Workspace

OLDEST = (2, 1, 295)
LOCAL = Path(".claude/settings.local.json")
EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "Stop")
HOOK = Path(__file__).with_name("hooks") / "command_hook.py"
OPERATOR = Actor.system("operator")
PATIENCE = 86_400  # seconds that Claude Code waits for the hook; the server answers long before


@dataclass
class Connected:
    """What `connect` did, for the operator."""

    workspace: Workspace
    notes: list[str] = field(default_factory=list)


def connect(path: str, *, team, key: str = "") -> Connected:
    """Register the folder, put the hook in, import the user's allow rules and try it out. Problems are in words."""
    notes = [_check_claude()]
    real = folders.check(path)
    if folders.find(real):
        raise conflict(f"{real} is connected already; `disconnect {real}` undoes it.")
    before = _read(real)
    agent = Agent.objects.get_or_create(team=team, name="claude-code")[0]
    workspace = folders.register(team, real, agent=agent, by=OPERATOR, key=key)
    try:
        _wait_until_ready(workspace)
        connection = _write_connection(workspace, agent, real, before)
        _put_hook_in(real, before, connection)
        notes.append(_hide_from_git(real, connection))
        notes += _import_rules(workspace, real)
        notes.append(_try_out(connection, real))
    except BaseException:
        _undo(workspace, real)
        raise
    return Connected(workspace, [note for note in notes if note])


def disconnect(path: str) -> Workspace:
    """Take the hook out and the workspace into the trash; its snapshots stay until the trash is emptied."""
    real = Path(path).expanduser().resolve()
    workspace = folders.find(real)
    if workspace is None:
        raise invalid(f"{real} is not connected.")
    _undo(workspace, real)
    return workspace


def _check_claude() -> str:
    program = shutil.which("claude")
    if program is None:
        return "Claude Code is not on this PATH, so its version could not be checked; it must be 2.1.295 or later."
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
    if not found or tuple(map(int, found.groups())) < OLDEST:
        raise invalid(
            f"Claude Code {said.split(' ')[0].strip() or 'of an unknown version'} is too old: 2.1.295 or later."
        )
    return ""


def _wait_until_ready(workspace):
    effect = workspace.effects.get(kind=f"{lifecycle.KINDS}.create")
    effect = effects.wait(effect, 120)
    if not effects.is_over(effect):
        raise unavailable("The runner does not answer. Start Handrail with `make up`, then connect again.")
    workspace.refresh_from_db()
    if workspace.state != State.READY:
        raise unavailable(f"The folder could not be taken in: {workspace.reason}")


# The connection and the hook -----------------------------------------------------------------------------------------


def _connection_of(workspace) -> Path:
    return settings.HANDRAIL_HOME / "connections" / f"{workspace.pk}.json"


def _read(real: Path) -> str | None:
    """The text of settings.local.json, or None. Problem 422 when it is not a JSON object: it would be lost."""
    file = real / LOCAL
    if file.is_symlink() or file.parent.is_symlink():
        raise invalid(f"{file} is a symlink; Handrail does not write through it.")
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        if not isinstance(json.loads(text), dict) or not isinstance(json.loads(text).get("hooks", {}), dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise invalid(f"{file} is not what Claude Code reads ({error}); mend or remove it first.") from None
    return text


def _write_connection(workspace, agent, real, before) -> Path:
    path = _connection_of(workspace)
    make_private(path.parent)
    host = settings.HANDRAIL_HOST if settings.HANDRAIL_HOST not in ("0.0.0.0", "::", "") else "127.0.0.1"
    told = {
        "address": f"http://{host}:{settings.HANDRAIL_PORT}",
        "token": make_token(workspace.team, agent=agent, workspace=workspace),
        "timeout_s": settings.HANDRAIL_HOLD_SECONDS + 30,
        "path": str(real),
        "before": before,
        "made_folder": not (real / LOCAL.parent).exists(),
    }
    _write_private(path, json.dumps(told, indent=1))
    return path


def _write_private(path: Path, text: str):
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def hook_command(connection: Path) -> str:
    """The shell line of the hook: when even Python does not start, it is still a no."""
    words = [sys.executable, "-I", str(HOOK), str(connection)]
    return f"{' '.join(map(shlex.quote, words))} || exit 2"


def _put_hook_in(real, before, connection):
    merged = json.loads(before) if before else {}
    hooks = merged.setdefault("hooks", {})
    entry = {"type": "command", "command": hook_command(connection), "timeout": PATIENCE}
    for event in EVENTS:
        group = {"hooks": [entry]} if event in ("SessionStart", "Stop") else {"matcher": "*", "hooks": [entry]}
        hooks.setdefault(event, []).append(group)
    _write_settings(real, json.dumps(merged, indent=2) + "\n")


def _write_settings(real, text):
    file = real / LOCAL
    file.parent.mkdir(exist_ok=True)
    fresh = file.with_name(f".{file.name}.handrail")
    fresh.write_text(text, "utf-8")
    for path in (file.parent, fresh):
        if os.geteuid() == 0:
            os.chown(path, real.stat().st_uid, real.stat().st_gid)
    fresh.rename(file)


def _without_our_hooks(text: str, connection: Path) -> dict:
    left = json.loads(text)
    for event, groups in list(left.get("hooks", {}).items()):
        for group in groups:
            group["hooks"] = [hook for hook in group["hooks"] if str(connection) not in hook.get("command", "")]
        left["hooks"][event] = [group for group in groups if group["hooks"]]
        if not left["hooks"][event]:
            del left["hooks"][event]
    if not left.get("hooks"):
        left.pop("hooks", None)
    return left


def _take_hook_out(real, connection: Path, told: dict):
    file = real / LOCAL
    if not file.is_file() or file.is_symlink():
        return
    left = _without_our_hooks(file.read_text("utf-8"), connection)
    before = told["before"]
    if before is not None and json.loads(before) == left:
        _write_settings(real, before)
    elif left or before is not None:
        _write_settings(real, json.dumps(left, indent=2) + "\n")
    else:
        file.unlink()
        if told["made_folder"] and not any(file.parent.iterdir()):
            file.parent.rmdir()


def _hide_from_git(real, connection: Path) -> str:
    """Keep the hook out of `git status` where nothing ignores it yet: in .git/info/exclude, which nobody commits."""
    exclude = _exclude_file(real)
    if exclude is None or _git(real, "check-ignore", "-q", str(LOCAL)).returncode == 0:
        return ""
    if _git(real, "ls-files", "--error-unmatch", str(LOCAL)).returncode == 0:
        return f"{LOCAL} is committed in this repository; the hook shows up in `git status` until `disconnect`."
    exclude.parent.mkdir(exist_ok=True)
    with open(exclude, "a", encoding="utf-8") as file:
        file.write(f"/{LOCAL}\n")
    told = json.loads(connection.read_text())
    _write_private(connection, json.dumps(told | {"excluded_in": str(exclude)}, indent=1))
    return ""


def _exclude_file(real) -> Path | None:
    done = _git(real, "rev-parse", "--git-path", "info/exclude")
    top = _git(real, "rev-parse", "--show-toplevel")
    if done.returncode or top.returncode or Path(top.stdout.strip()).resolve() != real:
        return None
    return real / done.stdout.strip()


def _git(real, *args):
    config = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "safe.directory": "*"}
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/"), "GIT_CONFIG_COUNT": "3"}
    for number, (name, value) in enumerate(config.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return subprocess.run(["git", *args], cwd=real, env=env, capture_output=True, text=True, timeout=30, check=False)


# The user's own rules ------------------------------------------------------------------------------------------------


def _import_rules(workspace, real) -> list[str]:
    """The allow rules of the user's Claude Code become the folder's own policy; those that are too broad do not."""
    wanted = []
    for file in (Path.home() / ".claude/settings.json", real / ".claude/settings.json", real / LOCAL):
        try:
            wanted += json.loads(file.read_text("utf-8"))["permissions"]["allow"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no such file, or nothing allowed in it
    base = policies.compiled(policies.active(workspace.team_id))
    mine = Policy.of_rules(dict.fromkeys(rule for rule in wanted if isinstance(rule, str)))
    taken = [rule.text for rule in mine.rules["low"]]
    if taken:
        lists = {tier: [rule.text for rule in rules] for tier, rules in base.rules.items()}
        lists["low"] = [*lists.get("low", []), *taken]
        text = _text(base.mode, lists)
        policies.add(workspace.team_id, text, environment=workspace.environment, actor=OPERATOR)
    imported = [f"Imported {len(taken)} of your allow rules."] if taken else []
    return imported + [f"Not imported: {rule} ({why})" for rule, why in mine.ignored.items()]


def _text(mode, lists) -> str:
    lines = [f"mode = {json.dumps(mode)}"]
    lines += [f"{tier} = {json.dumps(rules)}" for tier, rules in lists.items() if rules]
    return "\n".join(lines) + "\n"


# Try it, undo it -----------------------------------------------------------------------------------------------------


def _try_out(connection: Path, real) -> str:
    """One harmless call through the very line that Claude Code will run."""
    call = {
        "session_id": "handrail-connect",
        "cwd": str(real),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Glob",
        "tool_input": {"pattern": "*"},
        "tool_use_id": "handrail-connect",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", hook_command(connection)],
        input=json.dumps(call),
        capture_output=True,
        text=True,
        timeout=settings.HANDRAIL_HOLD_SECONDS + 60,
        check=False,
    )
    if done.returncode:
        raise unavailable(f"The test call was refused: {done.stderr.strip()}")
    decision = json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"]
    return f"A test call went through the hook and came back: {decision}."


def _undo(workspace, real):
    connection = _connection_of(workspace)
    if connection.exists():
        told = json.loads(connection.read_text())
        _take_hook_out(real, connection, told)
        if exclude := told.get("excluded_in"):
            _drop_line(Path(exclude), f"/{LOCAL}")
        connection.unlink()
    with transaction.atomic():
        Token.objects.filter(workspace=workspace, revoked_at=None).update(revoked_at=clock.now())
        workspace.refresh_from_db()
        if not workspace.trashed_at:
            lifecycle.trash(workspace, by=OPERATOR)


def _drop_line(file: Path, line: str):
    if file.is_file():
        kept = [text for text in file.read_text("utf-8").splitlines(keepends=True) if text.strip() != line]
        file.write_text("".join(kept), "utf-8")

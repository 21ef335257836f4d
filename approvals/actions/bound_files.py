"""What an approval binds besides the call: the bytes of the scripts and programs that it names, and a push's commit.

They are read when the action is submitted, shown on its card and part of its digest, and read again when the approval
is used. Only the first level is bound: a script, and nothing that it imports or includes (docs/decisions/0027).
"""

import base64
import posixpath
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals.actions import way_back_search
from approvals.actions.asked_snapshots import asking
from approvals.actions.transitions import add_revision, move, record
from approvals.evaluation import calls
from approvals.evaluation.calls import root_of, sha256
from approvals.evaluation.judge import content, current
from approvals.evaluation.own_verbs import PUSHES
from approvals.evidence import pushes
from approvals.evidence.argv import after
from approvals.evidence.deletes import Place
from approvals.evidence.findings import TimeLimit
from approvals.models import Action, Status, Tier
from approvals.policy.paths import is_secret
from approvals.policy.run_files import run_files
from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import Problem, conflict, unavailable
from dashboard.text.strict_json import without_nul
from workspaces.services import git_export

READ_TIMEOUT, GUEST_READ_TIMEOUT = 1.5, 6.0  # an emulated guest is slow
VERIFY_TIMEOUT = 8.0
UNHURRIED = 30.0  # for what the runner does, for which nobody is held
FILE, COMMIT, CHANGES = "file", "commit", "changes"
SENDS = "sends"  # the commits and files that Handrail's own push sends, as its card lists them
BOUND = (FILE, COMMIT, CHANGES, SENDS)  # states that are part of the digest; the others are only shown on the card
MCP = "mcp"  # state of what a gate said of an MCP server: part of the digest, and not read again
UNREADABLE = "unreadable"
NOT_READ = "not read"  # state of an entry without a path: the runner did not answer in time
HANDRAIL = Actor.system("Handrail")
UNUSED = Q(status=Status.APPROVED, consumed_at=None)


@dataclass(frozen=True)
class Bound:
    """`files` are {kind, path, state, sha256, size, content?}; `complete` says whether all files named were read."""

    files: list = field(default_factory=list)
    complete: bool = True

    def __post_init__(self):
        named = [file | {"path": without_nul(file["path"])} for file in self.files]
        object.__setattr__(self, "files", named)

    @property
    def canonical(self) -> list[dict]:
        """The entries for the digest, sorted: [{kind, path, sha256}]."""
        kept = [{name: file[name] for name in ("kind", "path", "sha256")} for file in self.files if _counts(file)]
        return sorted(kept, key=lambda file: (file["path"], file["kind"]))


def _counts(file: dict) -> bool:
    return file["state"] in (*BOUND, MCP)


NOTHING = Bound()


def needs(tier: str) -> bool:
    """Return whether calls of this tier bind files: those decided by a person or a grant, not by the policy alone."""
    return tier in (Tier.HIGH, Tier.CRITICAL)


def bind(tool: str, arguments: dict, cwd: str | None, workspace, found) -> Bound:
    """Read the files that a call names, for a new revision. Never raises: an entry says what could not be read."""
    if workspace is None or not needs(found.tier):
        return NOTHING
    seconds = GUEST_READ_TIMEOUT if workspace.environment.capabilities.files_need_run else READ_TIMEOUT
    bound = _read_bound(tool, arguments, cwd, workspace, found.commands, seconds)
    return bound if bound.complete else Bound([*bound.files, _entry("script", "", "", NOT_READ)], complete=False)


def _read_bound(tool: str, arguments: dict, cwd: str | None, workspace, commands: list, seconds: float) -> Bound:
    place = Place(workspace, root_of(workspace), TimeLimit(seconds))
    files = _files(place, cwd or place.root, commands, seconds) if tool == "Bash" else NOTHING
    found, complete = list(files.files), files.complete
    for state, question in _questions(place, tool, arguments, commands):
        told = _ask_git(place, state, question)
        found += told or []
        complete &= told is not None
    return Bound(found, complete)


def _files(place: Place, cwd: str, commands: list, seconds: float) -> Bound:
    named, is_all = run_files(commands, cwd, place.root)
    if not named:
        return NOTHING
    asked = [[file.path, file.kind, not is_secret(file.path.split("/"))] for file in named]
    question = {"files": asked, "seconds": seconds * 0.8}
    try:
        told = place.ask("contents", question)
    except Problem:
        return Bound([], complete=False)
    files = [file | {"path": _shown(file["path"], place.root)} for file in told["files"]]
    for file in files:
        if "content" in file:
            file["content"] = base64.b64decode(file["content"])
    if not is_all:
        files.append(_entry("script", "more files than Handrail checks", "", UNREADABLE))
    return Bound(files, told["complete"])


def _shown(path: str, root: str) -> str:
    path = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return path[len(root) + 1 :] if path.startswith(root + "/") else path


def _questions(place: Place, tool: str, arguments: dict, commands: list):
    """Yield (state, question for git) for each push: its commits, and uncommitted changes if it commits first."""
    if tool in PUSHES:
        yield COMMIT, git_export.question_of(place.workspace, arguments.get("branch", "")) | {"left": False}
        return
    commits = any("commit" in (after(step["words"], ("git",)) or ("", []))[1] for step in commands)
    for step in commands:
        question = pushes.question_of(step, place.root)[0] if pushes.is_push(step) else None
        if question:
            yield COMMIT, question
            if commits:
                yield CHANGES, {"folder": question["folder"]}


def _ask_git(place: Place, state: str, question: dict) -> list[dict] | None:
    """Return entries for git's answer; None when git cannot be asked, or had too little time."""
    try:
        told = place.ask("git-push" if state == COMMIT else "git-uncommitted", question)
    except Problem:
        return None
    folder = question["folder"] or "."
    if told.get("late"):
        return None
    if "error" in told:
        return [_entry(state, folder, "", UNREADABLE)]
    if state == CHANGES:
        return [_entry(state, folder, told["sha256"], state)]
    sent = [one for one in told["sends"] if one.get("sha")]
    named = [(posixpath.join(folder, one["to"]).removeprefix("./"), one) for one in sent]
    listed = [_entry(SENDS, path, git_export.seen_of(one), SENDS) for path, one in named if question.get("own")]
    return [*(_entry(state, path, one["sha"], state) for path, one in named), *listed]


def _entry(kind: str, path: str, digest: str, state: str) -> dict:
    return {"kind": kind, "path": path, "state": state, "sha256": digest, "size": None}


def differing(shown: list[dict], now: Bound) -> bool:
    """Return whether a file that the card showed has changed. Files that only the edited call names are ignored."""
    before = {(file["kind"], file["path"]): file["sha256"] for file in shown}
    return any(before.get((file["kind"], file["path"]), file["sha256"]) != file["sha256"] for file in now.canonical)


# When the approval is used --------------------------------------------------------------------------------------------


def verify(action: Action, seconds: float = VERIFY_TIMEOUT):
    """Read again what the approval binds. If it changed, make a new revision that needs approval again.

    Problem 409 `changed` in that case; 503 `unchecked` when it cannot be read: the approval is kept.
    """
    if action.workspace is None or not needs(action.tier) or action.tool.startswith("mcp__"):
        return
    call, was = content(action), current(action)
    now = _read_bound(call["tool"], call["arguments"], call["cwd"], action.workspace, was.commands, seconds)
    bound = call.get("files", [])
    changed = _changed(bound, now)
    if changed is None:
        raise unavailable(
            "The files that this runs can't be read now, so nothing runs. The approval stays valid.",
            code="unchecked",
        )
    if not changed:
        return
    if ask_again(action, now, changed):
        names = ", ".join(changed)
        raise conflict(
            f"{names} changed since it was approved. It needs approval again.",
            code="changed",
            action_status=action.status,
            digest=action.digest,
        )


def _changed(bound: list[dict], now: Bound) -> list[str] | None:
    """Return the names of what differs; None when that cannot be determined."""
    before = {(file["kind"], file["path"]): file["sha256"] for file in bound}
    after_ = {(file["kind"], file["path"]): file["sha256"] for file in now.canonical}
    differ = [name for name in {**before, **after_} if before.get(name) != after_.get(name)]
    if not now.complete:
        # A file that was not read counts neither as changed nor as unchanged.
        differ = [name for name in differ if name in after_]
        return [_called(*name) for name in differ] or None
    return [_called(*name) for name in differ]


def _called(kind: str, path: str) -> str:
    if kind == COMMIT:
        return f"the commit for {path}"
    if kind == SENDS:
        return f"the commits and files for {path}"
    return "uncommitted changes" if kind == CHANGES else path


def bind_rest(action: Action) -> bool:
    """Bind what could not be read in time when the action was submitted, while nobody has decided about it.

    Return whether it became another revision: what an approval did not bind would be asked about a second time.
    """
    call, was = content(action), current(action)
    if action.status != Status.PENDING or not was.files.filter(state=NOT_READ).exists():
        return False
    now = _read_bound(call["tool"], call["arguments"], call["cwd"], action.workspace, was.commands, UNHURRIED)
    if not now.complete:
        return False
    # Nobody approved the revision before, so nothing has changed since an approval.
    return ask_again(action, now, [], when=Q(status=Status.PENDING))


def ask_again(action: Action, now: Bound, changed: list[str], *, when: Q = UNUSED) -> bool:
    """Make an action pending again, with a revision for the current bytes; False if it is not as in `when` any more."""
    was, call, at = current(action), content(action), clock.now()
    canonical = calls.canonical(call["tool"], call["arguments"], call["cwd"], action.workspace, now.canonical)
    fields = {
        "revision": action.revision + 1,
        "digest": sha256(canonical),
        "grant": None,
        "decided_at": None,
        "consume_by": None,
        "agent_seen_at": None,
        "operation": None,
        "expires_at": at + timedelta(seconds=settings.HANDRAIL_EXPIRY_SECONDS),
    }
    data = {"was": was.digest, "revision": action.revision + 1, "changed": changed[:20]}
    still = when & Q(digest=action.digest)
    with transaction.atomic():
        if not move(action, Status.PENDING, verb="action.changed", by=HANDRAIL, when=still, data=data, **fields):
            return False
        action.decisions.filter(final=True).update(final=False)
        add_revision(action, action.revision, canonical, was, HANDRAIL, files=now.files, changed=changed)
        record(action, "action.waiting", HANDRAIL, {"undo": action.undo, "quorum": action.quorum})
        asking.request_snapshot(action)
        way_back_search.request(action)
    return True

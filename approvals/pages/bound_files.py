"""Show the scripts, programs and commits that a revision binds, on its card."""

import json
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_lazy

from approvals.actions.bound_files import BOUND, CHANGES, COMMIT, FILE, MCP, NOT_READ, SENDS
from approvals.actions.mcp_tools import SERVER
from approvals.evidence import pushes
from dashboard.text.visible_text import plain_size
from workspaces.changes.diff import FileDiff, compare
from workspaces.changes.highlight import deadline

FIRST_LEVEL = gettext_lazy(
    "Approval covers these exact contents: if one changes before this runs, it needs approval again. "
    "Files that they load in turn are not checked."
)
NO_WORKSPACE = gettext_lazy(
    "There is no workspace, so Handrail can't read the scripts and programs that this runs or see them change."
)
COULD_NOT_READ = gettext_lazy(
    "The scripts and programs that this runs could not all be read in time, so they are not all shown here. "
    "If they can be read when it runs, it needs approval again."
)
KINDS = {"script": gettext_lazy("script"), "program": gettext_lazy("program")}
WHY_NOT = {
    "outside": gettext_lazy("outside the workspace, so it is not shown or checked"),
    "large": gettext_lazy("too large to check"),
    "unreadable": gettext_lazy("can't be read, so it is not checked"),
}


@dataclass(frozen=True)
class ShownFile:
    """`text` is the content or None, `diff` the change since the previous revision, `note` describes the file."""

    name: str
    note: str
    text: str | None = None
    diff: FileDiff | None = None

    @property
    def is_shown(self) -> bool:
        return self.text is not None or bool(self.diff and self.diff.hunks)


def shown_files(revision, before, command: str) -> list[ShownFile]:
    old = {(file.kind, file.path): file for file in before.files.all()} if before else {}
    files = [file for file in revision.files.all() if file.state not in (NOT_READ, SENDS)]
    until = deadline()
    return [_shown(file, old.get((file.kind, file.path)), command, bool(old), until) for file in files]


def _shown(file, old, command: str, is_later: bool, until: float) -> ShownFile:
    if file.state == COMMIT:
        return ShownFile(file.path, gettext("commit %s") % file.sha256[:12])
    if file.state == CHANGES:
        return ShownFile(file.path, gettext("uncommitted changes"))
    if file.state == MCP:
        note = (
            gettext("MCP server, sha256 %s")
            if file.kind == SERVER
            else gettext("as its server describes it, sha256 %s")
        )
        return ShownFile(file.path, note % file.sha256[:12])
    if file.state != FILE:
        return ShownFile(file.path, WHY_NOT.get(file.state, file.state))
    note = f"{KINDS.get(file.kind, file.kind)}, {plain_size(file.size)}"
    if is_later and (old is None or old.sha256 != file.sha256):
        note = gettext("%(note)s, changed") % {"note": note}
    if file.content is None:
        return ShownFile(file.path, gettext("%(note)s, content not shown") % {"note": note})
    content, diff = bytes(file.content), None
    if old is not None and old.sha256 != file.sha256 and old.content is not None:
        diff = compare(file.path, bytes(old.content), content, until=until)
    return ShownFile(file.path, note, _text(file.path, content, command), diff)


def _text(path: str, content: bytes, command: str) -> str | None:
    """Return the text to show; None for binary content.

    Of a package.json only the scripts that the command names, or all if it names none.
    """
    if b"\0" in content:
        return None
    text = content.decode("utf-8", "surrogateescape")
    if path.rpartition("/")[2] != "package.json":
        return text
    try:
        scripts = json.loads(text)["scripts"]
        named = {name: run for name, run in scripts.items() if _is_named(name, command.split())}
        return "\n".join(f"{name}: {run}" for name, run in (named or scripts).items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return text


def _is_named(script: str, words: list[str]) -> bool:
    """Return whether the command names the script; npm also runs `predeploy` and `postdeploy` with `deploy`."""
    return any(name in words for name in (script, script.removeprefix("pre"), script.removeprefix("post")))


def files_note(action, revision) -> str:
    """Return the sentence below the files: what is bound, or why nothing is; "" if there is nothing to say."""
    runs = any(step.get("runs") or pushes.is_push({"words": [], **step}) for step in revision.commands)
    if action.workspace is None:
        return NO_WORKSPACE if runs and action.tool == "Bash" else ""
    states = {file.state for file in revision.files.all()}
    if NOT_READ in states:
        return COULD_NOT_READ
    if states & set(BOUND):
        return FIRST_LEVEL
    return ""

"""GitHub Copilot CLI: hooks whose events name neither themselves nor the call, so the hook's line names the event."""

import json
import re

from django.utils.translation import gettext_lazy

from approvals.agents.dialect import ALLOW, DENY, HOOK_TIMEOUT, REPORT_TIMEOUT, WHOLE, Dialect, Line, Reply
from approvals.agents.faults import BLOCKED, RUNS
from approvals.agents.hook_events import (
    After,
    Before,
    Began,
    Ended,
    HookEvent,
    Other,
    Prompted,
    folder,
    path,
    session,
    shell_end,
    text,
    text_or_none,
)
from dashboard.problems import invalid
from dashboard.text.strict_json import loads

GO_ON = {"continue": True}
RIPGREP = {
    name: name
    for name in ("pattern", "glob", "type", "output_mode", "head_limit", "multiline", "-A", "-B", "-C", "-i", "-n")
}
EXITED = re.compile(r"<shellId: \S{1,100} completed with exit code (-?\d{1,10})>")
TURNINGS = {"sessionStart": Began, "sessionEnd": Ended}


class Copilot(Dialect):
    name, title, program = "copilot", "Copilot CLI", "copilot"
    oldest = (1, 0, 102)
    edits = WHOLE
    takes_context = True
    has_call_id = False
    names_of_events = ("preToolUse", "postToolUse")
    settings_file, owns_file = ".copilot/hooks/handrail.json", True
    faults = dict.fromkeys(("exit 1", "killed", "missing", "ask"), BLOCKED) | {"empty": RUNS, "late": RUNS}
    tools = {
        # Without shellId: a shell that was used before may be in another folder, and no event says in which.
        "bash": ("Bash", {name: name for name in ("command", "description", "mode", "initial_wait")}),
        "read_bash": ("BashOutput", {"shellId": "bash_id", "delay": "delay"}),
        "stop_bash": ("KillShell", {"shellId": "shell_id"}),
        "list_bash": ("BashOutput", {}),
        "view": (
            "Read",
            {"path": "file_path", "view_range": "view_range", "forceReadLargeFiles": "forceReadLargeFiles"},
        ),
        "create": ("Write", {"path": "file_path", "file_text": "content"}),
        "edit": ("Edit", {"path": "file_path", "old_str": "old_string", "new_str": "new_string"}),
        "glob": ("Glob", {"pattern": "pattern", "paths": "path"}),
        "rg": ("Grep", RIPGREP | {"paths": "path"}),
        "grep": ("Grep", RIPGREP | {"path": "path"}),
    }
    limits = (
        gettext_lazy("disableAllHooks in its own settings takes the gate out."),
        gettext_lazy(
            "Hooks in a repository (.github/hooks) did not run without a terminal, so the gate is in the user's home."
        ),
    )

    def hooks(self, line: Line) -> str:
        told = ("postToolUse", "userPromptSubmitted", "sessionStart", "sessionEnd")
        entries = {event: [_entry(line("report", event), REPORT_TIMEOUT)] for event in told}
        gate = _entry(line("gate", "preToolUse"), HOOK_TIMEOUT)
        return json.dumps({"version": 1, "hooks": {"preToolUse": [gate]} | entries}, indent=2) + "\n"

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        event = {"sessionId": session, "cwd": cwd, "toolName": "glob", "toolArgs": {"pattern": "*"}}
        return event | ({"toolResult": {"resultType": "success"}} if ended else {})

    def read(self, event: dict, named: str = "") -> HookEvent:
        match named:
            case "preToolUse" | "postToolUse":
                return self._call(named, event)
            case "userPromptSubmitted":
                return Prompted(session=text(event, "sessionId"), cwd=folder(event), text=text_or_none(event, "prompt"))
            case "sessionStart" | "sessionEnd":
                noted = {each: found for each in ("source", "reason") if (found := text(event, each))}
                return TURNINGS[named](session=text(event, "sessionId"), cwd=folder(event), noted=noted)
            case str() if named:
                return Other()
        raise invalid("The event has no name, so nothing is allowed.")

    def _call(self, named: str, event: dict) -> Before | After:
        tool, arguments = event.get("toolName"), event.get("toolArgs")
        if not isinstance(tool, str):
            raise invalid("toolName is missing.")
        if isinstance(arguments, str):  # some versions send JSON in a text
            arguments = loads(arguments.encode())
        ours, translated = self.canonical(tool, arguments)
        of_call = {"session": session(event, "sessionId"), "tool": ours, "arguments": translated}
        of_call |= {"native": (tool, arguments)}
        if named == "preToolUse":
            return Before(cwd=path(event, "cwd"), **of_call)
        result = event.get("toolResult")
        told = result if isinstance(result, dict) else {}
        response = text_or_none(told, "textResultForLlm")
        failed = told.get("resultType") in ("failure", "denied", "rejected")
        ended = {"failed": failed} if failed or ours != "Bash" else _shell_end(response or "")
        return After(cwd=folder(event), event=named, response=response, **ended, **of_call)

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        if not isinstance(heard, Before):
            return dict(GO_ON)
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        answer = {"permissionDecision": ALLOW, "permissionDecisionReason": reply.reason}
        answer |= {"modifiedArgs": self.native(heard, reply.arguments)}
        return answer | ({"additionalContext": reply.context} if reply.context else {})

    def deny(self, reason: str) -> dict:
        return {"permissionDecision": DENY, "permissionDecisionReason": reason}

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and bool(reply.decision)


def _shell_end(response: str) -> dict:
    """Return how a shell call ended: Copilot CLI calls each a success, and tells the exit status in the last line."""
    last = response.rstrip().rpartition("\n")[2]
    found = EXITED.fullmatch(last)
    return shell_end(int(found[1]) if found else None)


def _entry(command: str, seconds: int) -> dict:
    return {"type": "command", "bash": command, "timeoutSec": seconds}


DIALECT = Copilot()

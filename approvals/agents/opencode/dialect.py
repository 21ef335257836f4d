"""OpenCode: a plugin (`opencode.js`) that runs the hook's program before and after each tool.

The events and responses are the plugin's own: OpenCode has no hooks that are programs.
"""

import json
import shlex
from pathlib import Path

from django.utils.translation import gettext_lazy

from approvals.agents.dialect import ALLOW, DENY, WHOLE, Dialect, Line, Reply
from approvals.agents.faults import BLOCKED
from approvals.agents.hook_events import (
    After,
    Before,
    HookEvent,
    Other,
    folder,
    path,
    session,
    shell_end,
    text,
    text_or_none,
)
from dashboard.problems import invalid

PLUGIN = Path(__file__).parent / "opencode.js"
GO_ON = {"continue": True}


class OpenCode(Dialect):
    name, title, program = "opencode", "OpenCode", "opencode"
    oldest = (1, 18, 33)
    edits = WHOLE
    takes_context = has_call_id = True
    settings_file, owns_file = ".config/opencode/plugins/handrail.js", True
    faults = dict.fromkeys(("exit 1", "killed", "missing", "empty", "late", "ask"), BLOCKED)  # the plugin throws
    tools = {
        "bash": ("Bash", {"command": "command", "description": "description", "timeout": "timeout"}),
        "read": ("Read", {"filePath": "file_path", "offset": "offset", "limit": "limit"}),
        "write": ("Write", {"filePath": "file_path", "content": "content"}),
        "edit": (
            "Edit",
            {
                "filePath": "file_path",
                "oldString": "old_string",
                "newString": "new_string",
                "replaceAll": "replace_all",
            },
        ),
        "glob": ("Glob", {"pattern": "pattern", "path": "path"}),
        "grep": ("Grep", {"pattern": "pattern", "path": "path", "include": "glob"}),
        "webfetch": ("WebFetch", {"url": "url", "format": "format", "timeout": "timeout"}),
        "list": ("LS", {"path": "path"}),
        "todowrite": ("TodoWrite", {"todos": "todos"}),
        "todoread": ("TodoRead", {}),
        "task": ("Agent", {name: name for name in ("description", "prompt", "subagent_type", "task_id", "command")}),
    }
    printing = ("grep",)
    limits = (
        gettext_lazy(
            "With --pure it loads no plugin, and a plugin that does not load is left out in silence: the tools run."
        ),
        gettext_lazy("It doesn't report prompts or the end of a session to the gate."),
    )

    def hooks(self, line: Line) -> str:
        """Return the plugin. It runs the hook's program itself, so it needs the line's words and no shell."""
        words = shlex.split(line("report"))[: -len(("report", self.name))]
        return PLUGIN.read_text("utf-8").replace('["@LINE@"]', json.dumps(words))

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        event = {"session_id": session, "call_id": session, "cwd": cwd, "tool": "glob", "args": {"pattern": "*"}}
        return event | {"hook_event_name": "tool.execute.after" if ended else "tool.execute.before"}

    def read(self, event: dict, named: str = "") -> HookEvent:
        name = event.get("hook_event_name") or named
        match name:
            case "tool.execute.before" | "tool.execute.after":
                return self._call(name, event)
            case str() if name:
                return Other()
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def _call(self, name: str, event: dict) -> Before | After:
        tool, arguments = event.get("tool"), event.get("args")
        if not isinstance(tool, str):
            raise invalid("tool is missing.")
        ours, translated = self.canonical(tool, arguments)
        of_call = {"session": session(event, "session_id"), "tool": ours, "arguments": translated}
        of_call |= {"native": (tool, arguments), "call_id": text(event, "call_id")}
        if name == "tool.execute.before":
            return Before(cwd=path(event, "cwd"), **of_call)
        ended = shell_end(event.get("exit")) if ours == "Bash" else {}
        return After(cwd=folder(event), event=name, response=text_or_none(event, "output"), **ended, **of_call)

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        if not isinstance(heard, Before):
            return dict(GO_ON)
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        answer = {"decision": ALLOW, "args": self.native(heard, reply.arguments)}
        return answer | ({"note": reply.context} if reply.context else {})

    def deny(self, reason: str) -> dict:
        return {"decision": DENY, "reason": reason}

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and bool(reply.decision)


DIALECT = OpenCode()

"""Cursor, its editor and its command line: hooks of one shape, documented at https://cursor.com/docs/hooks.

`preToolUse` is the gate of its own tools, and `beforeMCPExecution` that of MCP servers, since only this one names the
server. `beforeShellExecution` and `beforeReadFile` come after `preToolUse`, about the same call, so they are not set;
whoever sets them by hand is answered. What the documentation leaves open is as in the package `@cursor/sdk` 1.0.18:
an `ask` to `preToolUse` runs the tool, a denial reaches the model by `user_message` alone, an edit changes only some
arguments (TAKEN), and the event is put behind the hook's command as a here-document, so that of `a || b` it is `b`
that reads it.
"""

import hashlib
import posixpath
import re
import shlex
from urllib.parse import urlsplit

from django.utils.translation import gettext_lazy

from approvals.agents.dialect import ALLOW, DENY, HOOK_TIMEOUT, MERGED, REPORT_TIMEOUT, Dialect, Line, Reply
from approvals.agents.faults import BLOCKED, RUNS
from approvals.agents.hook_events import (
    After,
    Before,
    Began,
    Ended,
    HookEvent,
    OfCall,
    Other,
    Prompted,
    TurnEnded,
    path,
    session,
    shell_end,
    text,
    text_or_none,
)
from dashboard.problems import Problem, invalid
from dashboard.text import strict_json

GO_ON = {"continue": True}
GATES = {"preToolUse": "^(?!MCP:)", "beforeMCPExecution": ""}  # {event: the tools that it is for}
REPORTED = (
    "postToolUse", "postToolUseFailure", "afterMCPExecution", "beforeSubmitPrompt", "afterAgentResponse",
    "sessionStart", "stop", "sessionEnd",
)  # fmt: skip
# The events that are about one tool, with its name and its arguments.
OF_ONE_TOOL = {
    "beforeShellExecution": ("Shell", ("command",)),
    "afterShellExecution": ("Shell", ("command",)),
    "beforeReadFile": ("Read", ("file_path",)),
}
BEFORE = {"preToolUse", "beforeMCPExecution", "beforeShellExecution", "beforeReadFile"}
AFTER = {"postToolUse", "postToolUseFailure", "afterMCPExecution", "afterShellExecution"}
TAKEN = {
    "Shell": {"command", "cwd", "timeout"}, "Read": {"file_path"}, "Write": {"file_path"}, "Delete": {"file_path"},
    "Fetch": {"url"}, "Grep": {"pattern", "file_path"}, "List": {"file_path"},
}  # {tool: the arguments that an edit changes}; it keeps the others as the model wrote them  # fmt: skip
MCP = "MCP:"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
PLAIN_NAME = re.compile(r"(?!.*__)[A-Za-z0-9_-]{1,64}")


class Cursor(Dialect):
    name, title, program = "cursor", "Cursor", "cursor-agent"
    oldest = (2026, 5, 0)
    why_oldest = "older ones do not have the hook preToolUse, and run none of the hooks beside it"
    edits = MERGED
    takes_context = has_call_id = True
    settings_file = ".cursor/hooks.json"
    switches = {"version": 1}
    faults = dict.fromkeys(("exit 1", "killed", "missing", "empty", "late"), BLOCKED) | {"ask": RUNS}
    tools = {
        "Shell": ("Bash", {name: name for name in ("command", "description", "timeout")}),
        "Read": ("Read", {"file_path": "file_path"}),
        "Write": ("Write", {"file_path": "file_path", "content": "content"}),
        "Grep": ("Grep", {name: name for name in ("pattern", "glob", "output_mode")} | {"file_path": "path"}),
        "List": ("LS", {"file_path": "path", "ignore": "ignore"}),
        "Fetch": ("WebFetch", {"url": "url"}),
    }
    limits = (
        gettext_lazy(
            "It changes the content of no file by an edit, and no argument of an MCP tool. It is told which call to "
            "make instead, and that call runs without a second card."
        ),
        gettext_lazy("Input to a running program needs approval each time, but its event does not say what is typed."),
        gettext_lazy("Its completions while a person types (Tab) are not tool calls, and no hook here is for them."),
        gettext_lazy("An entry in hooks.json that Cursor does not understand takes out all hooks of that file."),
    )

    def hooks(self, line: Line) -> dict[str, dict]:
        gates = {}
        for event, tools in GATES.items():
            gates[event] = _entry(line("gate"), HOOK_TIMEOUT) | {"failClosed": True} | _matching(tools)
        return gates | dict.fromkeys(REPORTED, _entry(line("report"), REPORT_TIMEOUT))

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        event = {"conversation_id": session, "generation_id": session, "workspace_roots": [cwd], "cwd": cwd}
        event |= {"tool_name": "List", "tool_input": {"file_path": cwd}, "tool_use_id": session}
        if ended:
            return event | {"hook_event_name": "postToolUse", "tool_output": "{}"}
        return event | {"hook_event_name": "preToolUse"}

    # Read -----------------------------------------------------------------------------------------------------------

    def read(self, event: dict, named: str = "") -> HookEvent:
        name = event.get("hook_event_name") or named
        if name in BEFORE or name in AFTER:
            return self._call(name, event)
        about = {"session": text(event, "conversation_id"), "cwd": _folder(event)}
        match name:
            case "beforeSubmitPrompt":
                return Prompted(text=text_or_none(event, "prompt"), **about)
            case "afterAgentResponse":  # whose answer Cursor does not read
                return TurnEnded(said=text_or_none(event, "text"), was_kept_going=True, **about)
            case "stop":
                # Of a call that it refused itself, or that was killed, no event comes later.
                return TurnEnded(is_idle=True, was_kept_going=bool(event.get("loop_count")), **about)
            case "sessionStart" | "sessionEnd":
                noted = {"reason": reason} if (reason := text(event, "reason")) else {}
                return (Began if name == "sessionStart" else Ended)(noted=noted, **about)
            case str() if name:
                return Other()
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def _call(self, name: str, event: dict) -> HookEvent:
        tool, arguments = _named(name, event)
        if name in AFTER and tool.startswith(MCP) and name != "afterMCPExecution":
            return Other()  # afterMCPExecution tells the same, with the server
        ours, translated = self.canonical(tool, arguments)
        of_call = {"tool": ours, "arguments": translated, "native": (tool, arguments)}
        of_call |= {"call_id": text(event, "tool_use_id")}
        if name in BEFORE:
            session(event, "conversation_id")
            return Before(session=text(event, "conversation_id"), cwd=_works_in(event, tool, arguments), **of_call)
        of_call |= {"session": text(event, "conversation_id"), "cwd": _folder(event), "event": name}
        if name == "postToolUseFailure":
            return After(error=text_or_none(event, "error_message"), failed=True, **of_call)
        return After(**_end(name, event, is_shell=ours == "Bash"), **of_call)

    def canonical(self, tool: str, arguments: dict) -> tuple[str, dict]:
        if tool.startswith(MCP):  # `_named` has put the server before the tool
            return f"mcp__{tool.removeprefix(MCP)}", arguments
        if tool == "Shell" and isinstance(arguments, dict):  # its folder is that of the call, see `_works_in`
            arguments = {name: value for name, value in arguments.items() if name != "cwd"}
        return super().canonical(tool, arguments)

    def carries(self, heard: OfCall, arguments: dict) -> bool:
        if strict_json.same(arguments, heard.arguments):
            return True
        if not set(heard.arguments) <= set(arguments):
            return False
        tool, own = heard.native
        given = self.native(heard, arguments)
        changed = {name for name, value in given.items() if name not in own or not strict_json.same(own[name], value)}
        return changed <= TAKEN.get(tool, set())

    # Answer ---------------------------------------------------------------------------------------------------------

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        match heard:
            case Before():
                return self._decided(heard, reply)
            case TurnEnded():
                why = "\n\n".join(filter(None, (reply.reason, reply.context)))
                return GO_ON | ({"followup_message": why} if why else {})
        return GO_ON | ({"additional_context": reply.context} if reply.context else {})

    def _decided(self, heard: Before, reply: Reply) -> dict:
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        answer = {"permission": ALLOW, "agent_message": reply.reason}
        tool, given = heard.native[0], self.native(heard, reply.arguments)
        if tool in TAKEN:  # also unchanged: the last hook to name an argument wins, and this one is late
            answer["updated_input"] = {name: value for name, value in given.items() if name in TAKEN[tool]}
        return answer | ({"additional_context": reply.context} if reply.context else {})

    def deny(self, reason: str) -> dict:
        return {"permission": DENY, "user_message": reason, "agent_message": reason}

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        match heard:
            case Before():
                return bool(reply.decision) and (reply.decision == DENY or not heard.tool.startswith("mcp__"))
            case After():
                return heard.event in ("postToolUse", "postToolUseFailure")
            case TurnEnded():
                return heard.said is None
        return isinstance(heard, Began | Prompted)


def _entry(command: str, seconds: int) -> dict:
    """Return a hook; its line gets a shell of its own, so that all of it reads the event."""
    return {"command": shlex.join(["/bin/sh", "-c", command]), "timeout": seconds}


def _matching(tools: str) -> dict:
    return {"matcher": tools} if tools else {}


def _named(name: str, event: dict) -> tuple[str, dict]:
    """Return the tool and its arguments, of an MCP tool as `MCP:server__tool`. Problem 422."""
    if name in OF_ONE_TOOL:
        tool, names = OF_ONE_TOOL[name]
        return tool, {each: event[each] for each in names if each in event}
    tool, arguments = event.get("tool_name"), event.get("tool_input")
    if not isinstance(tool, str):
        raise invalid("tool_name is missing.")
    if isinstance(arguments, str):  # of an MCP tool, JSON in a text
        arguments = strict_json.loads(arguments.encode())
    if name.endswith("MCPExecution"):
        return f"{MCP}{_server(event)}__{tool}", arguments
    return tool, arguments


def _server(event: dict) -> str:
    """Return the name of an MCP server, one for each, in letters that names of tools have.

    The digest of its whole name, address or command line follows, unless its name has such letters alone.
    """
    named = text_or_none(event, "mcp_server_name") or ""
    if PLAIN_NAME.fullmatch(named):
        return named
    address = text_or_none(event, "url") or text_or_none(event, "command") or ""
    shown = named or urlsplit(address).hostname or address.split(" ", 1)[0].rpartition("/")[2] or "unknown"
    digest = hashlib.sha256(f"{named}\0{address}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{NOT_IN_NAMES.sub('_', shown)[:40].strip('_')}_{digest[:12]}"


def _end(name: str, event: dict, *, is_shell: bool) -> dict:
    """Return how a call ended. Of a shell call Cursor tells whether its exit status was 0, and calls every other 1."""
    if name == "afterMCPExecution":
        return {"response": text_or_none(event, "result_json")}
    output = text_or_none(event, "output" if name == "afterShellExecution" else "tool_output")
    if not is_shell or name == "afterShellExecution":
        return {"response": output} | (shell_end(None) if is_shell else {})
    try:
        shell_result = strict_json.loads((output or "").encode())
    except Problem:
        shell_result = None
    if not isinstance(shell_result, dict):
        return {"response": output} | shell_end(None)
    status = shell_result.get("exitCode")
    end = {"failed": True} if isinstance(status, int) and status else shell_end(status)
    return {"response": text_or_none(shell_result, "output")} | end


def _works_in(event: dict, tool: str, arguments) -> str | None:
    """Return the folder in which a call runs: that which a shell command names, else the event's. Problem 422."""
    own = path(arguments, "cwd") if tool == "Shell" and isinstance(arguments, dict) else None
    here = path(event, "cwd")
    if own and (not here or posixpath.isabs(own)):
        return posixpath.join(_folder(event) or "/", own)
    return here or _folder(event)


def _folder(event: dict) -> str | None:
    """Return the folder in which the session works: the first of the editor's."""
    roots = event.get("workspace_roots")
    return roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else None


DIALECT = Cursor()

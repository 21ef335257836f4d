"""The Agent Client Protocol: requests for permission, as `hooks/acp_program` sends them.

An agent decides itself which calls it asks its client about. If the agent's own hook has allowed a call already, it is
permitted without another action. The protocol carries neither an edited call nor the reason of a denial.
"""

import re
import shlex

from approvals.agents.dialect import ALLOW, DENY, NONE, Dialect, Line, Reply
from approvals.agents.faults import BLOCKED, FAULTS
from approvals.agents.hook_events import (
    MAX_ID,
    After,
    Before,
    Began,
    HookEvent,
    OfCall,
    Other,
    Prompted,
    TurnEnded,
    folder,
    path,
    session,
    text_or_none,
)
from dashboard.problems import invalid

PERMISSION, WRITE = "session/request_permission", "fs/write_text_file"
# Prefix of the call ids of actions that a client asked for, so that none equals the id of a hook's action.
CLIENT_PREFIX = "acp:"
SHELL_ARGUMENTS = frozenset(("command", "description", "cwd", "timeout"))
FETCH_ARGUMENTS = frozenset(("url", "format", "prompt", "timeout"))
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ACP(Dialect):
    name, title, program = "acp", "ACP", "acp"
    oldest = (0, 0, 0)
    edits = NONE
    takes_context = False
    has_call_id = True
    comes_after_hook = True
    faults = dict.fromkeys(FAULTS, BLOCKED)

    def hooks(self, line: Line) -> dict[str, dict] | str:
        """Return no hooks: the client asks."""
        return {}

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        call = {"toolCallId": session, "kind": "execute", "rawInput": {"command": "pwd"}, "title": "pwd"}
        event = {"sessionId": session, "cwd": cwd, "toolCall": call}
        if ended:
            return event | {"hook_event_name": "session/update", "toolCall": call | {"status": "completed"}}
        return event | {"hook_event_name": PERMISSION, "options": []}

    def read(self, event: dict, named: str = "") -> HookEvent:
        name = event.get("hook_event_name") or named
        match name:
            case "session/request_permission" | "fs/write_text_file" | "terminal/create":
                return _asked(name, event)
            case "session/update" if _is_over(event.get("toolCall")):
                call = event["toolCall"]
                failed = call["status"] == "failed"
                said = text_of(call.get("content"))
                return After(event=name, response=said, failed=failed, **_call(event, call, folder(event)))
            case "session/new":
                return Began(session=session(event, "sessionId"), cwd=folder(event))
            case "session/prompt":
                return Prompted(
                    session=session(event, "sessionId"), cwd=folder(event), text=text_or_none(event, "text")
                )
            case "session/stopped":
                about = {"session": session(event, "sessionId"), "cwd": folder(event)}
                return TurnEnded(said=text_or_none(event, "said"), is_idle=True, was_kept_going=True, **about)
            case str() if name:
                return Other(cwd=folder(event))
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def native(self, heard: OfCall, arguments: dict) -> dict:
        return arguments

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        if not isinstance(heard, Before):
            return {"continue": True}
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        return {"decision": ALLOW}

    def deny(self, reason: str) -> dict:
        return {"decision": DENY, "reason": reason}

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and reply.decision != ALLOW


def _asked(name: str, event: dict) -> Before:
    if name == PERMISSION:
        call = event.get("toolCall")
        if not isinstance(call, dict):
            raise invalid("toolCall is missing.")
        return Before(**_call(event, call, path(event, "cwd")))
    about = {"session": session(event, "sessionId"), "call_id": CLIENT_PREFIX + _id(event, "callId")}
    if name == WRITE:
        file, content = text_or_none(event, "path"), text_or_none(event, "content")
        if file is None or content is None:
            raise invalid("A file needs its path and its content.")
        arguments = {"file_path": file, "content": content}
        return Before(tool="Write", arguments=arguments, cwd=path(event, "cwd"), native=(name, arguments), **about)
    tool, arguments = _terminal(event)
    return Before(tool=tool, arguments=arguments, cwd=path(event, "cwd"), native=(name, arguments), **about)


def _terminal(event: dict) -> tuple[str, dict]:
    """Return (tool, arguments) of a new terminal's command. Problem 422.

    Some editors run the command and its arguments as they are, others join them for a shell. If the two differ, the
    call gets a name that no rule knows, so that a person is asked.
    """
    command, words, variables = event.get("command"), event.get("args") or [], event.get("env") or []
    if not isinstance(command, str) or not command or not isinstance(words, list):
        raise invalid("A terminal needs a command, and a list of arguments.")
    if not all(isinstance(word, str) for word in words):
        raise invalid("The arguments of a terminal must be texts.")
    assignments, joined = [_assignment(each) for each in variables], " ".join([command, *words])
    if words and shlex.join([command, *words]) != joined:
        return "acp:terminal", {"command": command, "args": words} | ({"env": assignments} if assignments else {})
    return "Bash", {"command": f"env {shlex.join(assignments)} {joined}" if assignments else joined}


def _assignment(variable) -> str:
    named = variable if isinstance(variable, dict) else {}
    name, value = named.get("name"), named.get("value")
    if not isinstance(name, str) or not VARIABLE.fullmatch(name) or not isinstance(value, str):
        raise invalid("The variables of a terminal need names and values.")
    return f"{name}={value}"


def _call(event: dict, call: dict, cwd: str | None) -> dict:
    tool, arguments, where = _canonical_call(call)
    about = {"session": session(event, "sessionId"), "call_id": CLIENT_PREFIX + _id(call, "toolCallId")}
    return about | {"tool": tool, "arguments": arguments, "cwd": where or cwd, "native": (tool, arguments)}


def _canonical_call(call: dict) -> tuple[str, dict, str | None]:
    """Return (tool, arguments, cwd) of a tool call, in Handrail's names.

    A call with arguments that Handrail does not know gets a name that no rule knows, so that a person is asked.
    """
    kind, raw = call.get("kind"), call.get("rawInput")
    raw = raw if isinstance(raw, dict) else {}
    if kind == "execute" and set(raw) <= SHELL_ARGUMENTS and (command := _command(raw.get("command"))):
        said = {"description": raw["description"]} if isinstance(raw.get("description"), str) else {}
        return "Bash", {"command": command} | said, raw["cwd"] if isinstance(raw.get("cwd"), str) else None
    if kind == "fetch" and set(raw) <= FETCH_ARGUMENTS and isinstance(raw.get("url"), str):
        return "WebFetch", {"url": raw["url"]}, None
    if kind == "edit" and (change := _change(call.get("content"))):
        return (*change, None)
    told = {name: call[name] for name in ("title", "rawInput", "locations", "content") if call.get(name)}
    return f"acp:{kind if isinstance(kind, str) and kind.isidentifier() else 'other'}", told, None


def _command(value) -> str:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value if isinstance(value, str) else ""


def _change(content) -> tuple[str, dict] | None:
    """Return the Write or Edit of a diff, None unless the content is exactly one diff."""
    changes = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if len(changes) != 1 or changes[0].get("type") != "diff":
        return None
    file, before, after = (changes[0].get(name) for name in ("path", "oldText", "newText"))
    if not isinstance(file, str) or not isinstance(after, str) or not isinstance(before, str | None):
        return None
    if before is None:
        return "Write", {"file_path": file, "content": after}
    return "Edit", {"file_path": file, "old_string": before, "new_string": after}


def text_of(content) -> str:
    """Return the text in the content of a tool call."""
    found = content if isinstance(content, list) else []
    blocks = [each.get("content") for each in found if isinstance(each, dict) and each.get("type") == "content"]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _is_over(call) -> bool:
    return isinstance(call, dict) and call.get("status") in ("completed", "failed")


def _id(told: dict, name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not value or len(value) > MAX_ID - len(CLIENT_PREFIX):
        raise invalid(f"{name} must be a text of at most {MAX_ID - len(CLIENT_PREFIX)} characters.")
    return value

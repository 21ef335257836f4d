"""The Agent Client Protocol: what an agent asks its client to permit, as `hooks/acp_program` sends it.

An agent decides itself what it asks about, so this is the second lock of an agent whose own hook is the first: a call
that the hook has let through is permitted without another question. The protocol carries neither an edit nor a reason.
"""

import shlex

from approvals.agents.dialect import ALLOW, DENY, NONE, Dialect, Line, Reply
from approvals.agents.faults import BLOCKED, FAULTS
from approvals.agents.heard import (
    MAX_ID,
    After,
    Before,
    Began,
    Heard,
    OfCall,
    Other,
    Prompted,
    TurnEnded,
    folder,
    path,
    session,
    words,
)
from dashboard.problems import invalid

PERMISSION, WRITE = "session/request_permission", "fs/write_text_file"
BY_CLIENT = "acp:"  # before the ids of calls that only the client was asked about, so that none is a hook's
# What a shell call may have beside its command: the folder is that of the call, the others change nothing that runs.
BESIDE = frozenset(("description", "cwd", "timeout"))
OF_FETCH = frozenset(("url", "format", "prompt", "timeout"))


class ACP(Dialect):
    name, title, program = "acp", "ACP", "acp"
    oldest = (0, 0, 0)
    edits = NONE
    takes_context = False
    has_call_id = True
    is_second_lock = True
    faults = dict.fromkeys(FAULTS, BLOCKED)

    def hooks(self, line: Line) -> dict[str, dict] | str:
        """Return nothing: an agent's client is asked, not a hook."""
        return {}

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        call = {"toolCallId": session, "kind": "execute", "rawInput": {"command": "pwd"}, "title": "pwd"}
        event = {"sessionId": session, "cwd": cwd, "toolCall": call}
        if ended:
            return event | {"hook_event_name": "session/update", "toolCall": call | {"status": "completed"}}
        return event | {"hook_event_name": PERMISSION, "options": []}

    def read(self, event: dict, named: str = "") -> Heard:
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
                return Prompted(session=session(event, "sessionId"), cwd=folder(event), text=words(event, "text"))
            case "session/stopped":
                about = {"session": session(event, "sessionId"), "cwd": folder(event)}
                return TurnEnded(said=words(event, "said"), is_idle=True, was_kept_going=True, **about)
            case str() if name:
                return Other(cwd=folder(event))
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def native(self, heard: OfCall, arguments: dict) -> dict:
        return arguments

    def answer(self, heard: Heard, reply: Reply) -> dict:
        if not isinstance(heard, Before):
            return {"continue": True}
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        return {"decision": ALLOW}

    def deny(self, reason: str) -> dict:
        return {"decision": DENY, "reason": reason}

    def hears(self, heard: Heard, reply: Reply) -> bool:
        return isinstance(heard, Before) and reply.decision != ALLOW


def _asked(name: str, event: dict) -> Before:
    if name == PERMISSION:
        call = event.get("toolCall")
        if not isinstance(call, dict):
            raise invalid("toolCall is missing.")
        return Before(**_call(event, call, path(event, "cwd")))
    about = {"session": session(event, "sessionId"), "call_id": BY_CLIENT + _id(event, "callId")}
    if name == WRITE:
        file, content = words(event, "path"), words(event, "content")
        if file is None or content is None:
            raise invalid("A file needs its path and its content.")
        arguments = {"file_path": file, "content": content}
        return Before(tool="Write", arguments=arguments, cwd=path(event, "cwd"), native=(name, arguments), **about)
    command = {"command": _terminal(event)}
    return Before(tool="Bash", arguments=command, cwd=path(event, "cwd"), native=(name, command), **about)


def _terminal(event: dict) -> str:
    """Return the shell command that does what a terminal is asked to run. Problem 422."""
    command, given, variables = event.get("command"), event.get("args") or [], event.get("env") or []
    if not isinstance(command, str) or not command or not all(isinstance(each, str) for each in given):
        raise invalid("A terminal needs a command, and arguments that are texts.")
    try:
        named = [f"{each['name']}={each['value']}" for each in variables]
    except (TypeError, KeyError):
        raise invalid("The variables of a terminal need names and values.") from None
    if not given and not named:
        return command
    return shlex.join([*(["env", *named] if named else []), command, *given])


def _call(event: dict, call: dict, cwd: str | None) -> dict:
    tool, arguments, where = described(call)
    about = {"session": session(event, "sessionId"), "call_id": BY_CLIENT + _id(call, "toolCallId")}
    return about | {"tool": tool, "arguments": arguments, "cwd": where or cwd, "native": (tool, arguments)}


def described(call: dict) -> tuple[str, dict, str | None]:
    """Return (tool, arguments, cwd) of a tool call as the agent describes it.

    What is not told in full gets a name that no rule knows, so that a person is asked.
    """
    kind, raw = call.get("kind"), call.get("rawInput")
    raw = raw if isinstance(raw, dict) else {}
    if kind == "execute" and set(raw) <= BESIDE | {"command"} and (command := _command(raw.get("command"))):
        return "Bash", {"command": command}, raw["cwd"] if isinstance(raw.get("cwd"), str) else None
    if kind == "fetch" and set(raw) <= OF_FETCH and isinstance(raw.get("url"), str):
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
    """Return the call that makes the one change that is shown, None if there is not exactly one."""
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
    if not isinstance(value, str) or not value or len(value) > MAX_ID - len(BY_CLIENT):
        raise invalid(f"{name} must be a text of at most {MAX_ID - len(BY_CLIENT)} characters.")
    return value

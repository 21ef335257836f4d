"""The shape of the events and responses of Claude Code's hooks, which Codex and Qwen Code have taken over.

Such an agent runs the tool when a response is empty, blank or `{}`, and ignores one without `hookEventName`, so every
response is a full object.
"""

from approvals.agents.dialect import ALLOW, DENY, HOOK_TIMEOUT, REPORT_TIMEOUT, Dialect, Line, Reply
from approvals.agents.hook_events import (
    After,
    Asked,
    Before,
    Began,
    Ended,
    HookEvent,
    Other,
    OwnPrompt,
    Prompted,
    TurnEnded,
    folder,
    path,
    session,
    text,
    text_or_none,
)
from dashboard.problems import invalid

GO_ON = {"continue": True}  # changes nothing: the response to events that are only recorded
TOOL_EVENTS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
PERMITTED = {"decision": {"behavior": "allow"}}
TURNINGS = {"SessionStart": Began, "Stop": TurnEnded, "SessionEnd": Ended}
QUESTION = {"mcp_server_name": "server", "message": "message", "mode": "mode", "requested_schema": "requestedSchema"}


class ClaudeFormat(Dialect):
    """A dialect in which events and responses have the shape of Claude Code's."""

    hook_timeout = HOOK_TIMEOUT  # seconds, as the settings say it
    told = ("PostToolUse", "UserPromptSubmit", "SessionStart", "Stop")  # events that are only recorded
    search_tool = "Glob"
    can_message_person = True  # besides the decision a response can hold words for the person, and end the turn

    def hooks(self, line: Line) -> dict[str, dict]:
        gate = {"type": "command", "command": line("gate"), "timeout": self.hook_timeout}
        report = {"type": "command", "command": line("report"), "timeout": REPORT_TIMEOUT}
        told = {event: {"hooks": [report]} for event in self.told}
        return {"PreToolUse": {"matcher": "*", "hooks": [gate]}} | told

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        event = {"session_id": session, "cwd": cwd, "permission_mode": "default", "tool_use_id": session}
        event |= {"tool_name": self.search_tool, "tool_input": {"pattern": "*"}}
        if ended:
            return event | {"hook_event_name": "PostToolUse", "tool_response": {}}
        return event | {"hook_event_name": "PreToolUse"}

    def read(self, event: dict, named: str = "") -> HookEvent:
        name = event.get("hook_event_name") or named
        common = {"in_sub_agent": bool(event.get("agent_id"))}
        match name:
            case str() if name in TOOL_EVENTS:
                return self._call(name, event, common)
            case "Elicitation":
                asked = {ours: event[own] for own, ours in QUESTION.items() if event.get(own) is not None}
                common |= {"session": session(event, "session_id"), "cwd": path(event, "cwd")}
                common |= {"transcript": _transcript(event)}
                return Asked(question=asked, call_id=text(event, "elicitation_id"), **common)
            case "UserPromptSubmit":
                common |= {"session": text(event, "session_id"), "cwd": folder(event)}
                return Prompted(text=text_or_none(event, "prompt"), **common)
            case str() if name in TURNINGS:
                return _turning(name, event, common)
            case str() if name:
                return Other(cwd=folder(event))
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def _call(self, name: str, event: dict, common: dict) -> Before | OwnPrompt | After:
        tool, arguments = event.get("tool_name"), event.get("tool_input")
        common |= {"call_id": text(event, "tool_use_id"), "transcript": _transcript(event)}
        common |= {"native": (tool, arguments)}
        if name == "PreToolUse":
            if not isinstance(tool, str):
                raise invalid("tool_name is missing.")
            ours, translated = self.canonical(tool, arguments)
            common |= {"session": session(event, "session_id"), "cwd": path(event, "cwd")}
            return Before(tool=ours, arguments=translated, **common)
        ours, translated = self.canonical(tool, arguments) if isinstance(tool, str) else ("", arguments)
        common |= {"session": text(event, "session_id"), "cwd": folder(event), "tool": ours, "arguments": translated}
        if name == "PermissionRequest":
            return OwnPrompt(**common)
        response = event.get("tool_response")
        return After(
            event=name,
            response=response,
            error=text_or_none(event, "error"),
            failed=name == "PostToolUseFailure" or _is_failure(response),
            **common,
        )

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        response = self._response(heard, reply)
        if not self.can_message_person:
            return response
        if reply.user_message:
            response |= {"systemMessage": reply.user_message}
        return response | {"continue": False, "stopReason": reply.ends_turn} if reply.ends_turn else response

    def _response(self, heard: HookEvent, reply: Reply) -> dict:
        match heard:
            case Before():
                return self._decided(heard, reply)
            case OwnPrompt():
                return GO_ON | (_output("PermissionRequest", **PERMITTED) if reply.decision == ALLOW else {})
            case Asked():
                return _of_question(reply)
            case TurnEnded():
                why = "\n\n".join(filter(None, (reply.reason, reply.context)))
                return {"decision": "block", "reason": why} if why else dict(GO_ON)
            case After() | Began() | Prompted() if reply.context:
                return GO_ON | _output(_name_of(heard), additionalContext=reply.context)
        return dict(GO_ON)

    def _decided(self, heard: Before, reply: Reply) -> dict:
        if not reply.decision and self.asks_here:
            # For a question or a plan: Claude Code asks at its own terminal then, in every mode.
            return GO_ON | _output("PreToolUse")
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context))))
        told = {"additionalContext": reply.context} if reply.context and self.takes_context else {}
        given = self.native(heard, reply.arguments)
        return _decision(ALLOW, reply.reason, updatedInput=given, **told)

    def deny(self, reason: str) -> dict:
        return _decision(DENY, reason)

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        if isinstance(heard, Before):
            return bool(reply.decision)
        return isinstance(heard, After | Began | Prompted | TurnEnded)


def _output(event: str, **more) -> dict:
    return {"hookSpecificOutput": {"hookEventName": event, **more}}


def _decision(decision: str, reason: str, **more) -> dict:
    return _output("PreToolUse", permissionDecision=decision, permissionDecisionReason=reason, **more)


def _of_question(reply: Reply) -> dict:
    """Return the response to an MCP server's question. Without a decision Claude Code asks at its own terminal."""
    if not reply.decision:
        return dict(GO_ON)
    given = {"action": "accept", "content": reply.content} if reply.decision == ALLOW else {"action": "decline"}
    return {"reason": reply.reason} | _output("Elicitation", **given)


def _name_of(heard: HookEvent) -> str:
    match heard:
        case After():
            return heard.event
        case Began():
            return "SessionStart"
    return "UserPromptSubmit"


def _turning(name: str, event: dict, common: dict) -> HookEvent:
    noted = {each: found for each in ("source", "permission_mode", "reason") if (found := text(event, each))}
    common |= {"session": text(event, "session_id"), "cwd": folder(event), "noted": noted}
    if name != "Stop":
        return TURNINGS[name](**common)
    return TurnEnded(
        said=text_or_none(event, "last_assistant_message"),
        is_idle=event.get("background_tasks") == [],  # older versions do not send it
        was_kept_going=bool(event.get("stop_hook_active")),
        **common,
    )


def _transcript(event: dict) -> str:
    return event["transcript_path"] if isinstance(event.get("transcript_path"), str) else ""


def _is_failure(response) -> bool:
    """Return whether a tool's response reports a failure. Its shape differs from tool to tool."""
    if not isinstance(response, dict):
        return False
    went_wrong = (response.get(name) is True for name in ("is_error", "isError", "interrupted"))
    return any(went_wrong) or response.get("success") is False

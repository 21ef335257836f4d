"""What each agent sends to its hook, and what it does with the answer, as seen with its real program.

Written from the agents' side: nothing here asks a dialect.
"""

import json

SESSION, CALL, FOLDER = "s1", "call_1", "/home/mia/repo"
COMMAND = "pwd"


def _claude(tool, arguments):
    event = {"session_id": SESSION, "transcript_path": "/home/mia/t.jsonl", "cwd": FOLDER, "permission_mode": "default"}
    return event | {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": arguments, "tool_use_id": CALL}


def _gemini(tool, arguments):
    event = {"session_id": SESSION, "transcript_path": "/home/mia/t.json", "cwd": FOLDER, "timestamp": "2026-11-22"}
    return event | {"hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": arguments}


def _copilot(tool, arguments):
    return {"sessionId": SESSION, "timestamp": 1, "cwd": FOLDER, "toolName": tool, "toolArgs": arguments}


def _opencode(tool, arguments):
    event = {"hook_event_name": "tool.execute.before", "session_id": SESSION, "call_id": CALL, "cwd": FOLDER}
    return event | {"tool": tool, "args": arguments}


def _cursor(tool, arguments):
    event = {"conversation_id": SESSION, "generation_id": "g1", "model": "m", "session_id": SESSION}
    event |= {"cursor_version": "2026.10.01", "workspace_roots": [FOLDER], "transcript_path": None, "cwd": FOLDER}
    event |= {"tool_name": tool, "tool_input": arguments, "tool_use_id": CALL}
    return event | {"hook_event_name": "preToolUse"}


def _acp(tool, arguments):
    """As an agent's client sends it: what the agent wants permission for."""
    call = {"toolCallId": CALL, "kind": tool, "title": "A call", "rawInput": arguments, "status": "pending"}
    event = {"hook_event_name": "session/request_permission", "sessionId": SESSION, "cwd": FOLDER}
    return event | {"toolCall": call, "options": [], "dialect": "acp"}


EVENTS = {
    "claude-code": _claude, "codex": _claude, "qwen": _claude, "gemini": _gemini, "copilot": _copilot,
    "opencode": _opencode, "acp": _acp, "cursor": _cursor,
}  # fmt: skip
SHELL = {
    "claude-code": "Bash", "codex": "Bash", "qwen": "run_shell_command", "gemini": "run_shell_command",
    "copilot": "bash", "opencode": "bash", "acp": "execute", "cursor": "Shell",
}  # fmt: skip


def before(agent: str, arguments: dict, tool: str = "") -> dict:
    """The event before a call, by default of the agent's shell."""
    return EVENTS[agent](tool or SHELL[agent], arguments)


def after(agent: str, arguments: dict, status: int | None = 0, said: str = "done", tool: str = "") -> tuple[dict, str]:
    """The event after a call, by default of the agent's shell, and its name for the agent that does not tell it.

    `status` is the exit status of the command, `said` its output; None for an end that the agent does not tell.
    """
    event = before(agent, arguments, tool)
    match agent:
        case "gemini":
            end = f"\nExit Code: {status}" if status else ""
            content = f"<untrusted_context>\nOutput: {said}{end}\nProcess Group PGID: 7\n</untrusted_context>"
            told = {} if status is None else {"llmContent": content, "returnDisplay": said}
            return event | {"hook_event_name": "AfterTool", "tool_response": told}, ""
        case "copilot":
            end = "" if status is None else f"\n<shellId: 0 completed with exit code {status}>"
            told = {"resultType": "success", "textResultForLlm": f"{said}{end}"}
            return event | {"toolResult": told}, "postToolUse"
        case "acp":
            content = [{"type": "content", "content": {"type": "text", "text": said}}]
            over = {"status": "failed" if status else "completed", "content": content}
            return event | {"hook_event_name": "session/update", "toolCall": event["toolCall"] | over}, ""
        case "cursor":  # it calls every status but 0 a 1
            told = {"output": said} | ({} if status is None else {"exitCode": int(bool(status))})
            return event | {"hook_event_name": "postToolUse", "tool_output": json.dumps(told), "duration": 1}, ""
        case "opencode":
            return event | {"hook_event_name": "tool.execute.after", "output": said, "exit": status}, ""
        case "codex":  # the hook's program has read the exit status in the transcript
            found = {} if status is None else {"handrail_exit_status": status}
            return event | {"hook_event_name": "PostToolUse", "tool_response": said} | found, ""
    if status:
        return event | {"hook_event_name": "PostToolUseFailure", "error": f"Exit code {status}\n{said}"}, ""
    return event | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": said}}, ""


def headers(agent: str, event: str = "preToolUse") -> list[tuple[str, str]]:
    return [("X-Handrail-Event", event)] if agent == "copilot" else []


def does(agent: str, asked: dict, answer: dict):
    """What the agent does after this answer: ("runs", arguments) or ("blocked", the reason that the model reads)."""
    assert json.loads(json.dumps(answer))  # an empty one runs the tool in each of them
    return _DOES[agent](asked, answer)


def _claude_does(asked, answer):
    said = answer.get("hookSpecificOutput", {})
    if said.get("hookEventName") != "PreToolUse" or said.get("permissionDecision") not in ("deny", "ask"):
        return "runs", said.get("updatedInput", asked)
    return "blocked", said["permissionDecisionReason"]


KNOWN_TO_CODEX = {
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
}


def _codex_does(asked, answer):
    if set(answer) != {"hookSpecificOutput"} or set(answer["hookSpecificOutput"]) - KNOWN_TO_CODEX:
        return "runs", asked  # the hook has failed
    return ("runs", asked) if "ask" in answer["hookSpecificOutput"].values() else _claude_does(asked, answer)


def _qwen_does(asked, answer):
    done = _claude_does(asked, answer)
    return done if done[0] == "blocked" else ("runs", asked)


def _gemini_does(asked, answer):
    if answer.get("decision") in ("deny", "block"):
        return "blocked", answer["reason"]
    return "runs", asked | answer.get("hookSpecificOutput", {}).get("tool_input", {})


def _copilot_does(asked, answer):
    if answer.get("permissionDecision") == "deny":
        return "blocked", answer["permissionDecisionReason"]
    return "runs", answer.get("modifiedArgs", asked)


def _opencode_does(asked, answer):
    return ("runs", answer["args"]) if answer.get("decision") == "allow" else ("blocked", answer["reason"])


# What `applyUpdatedInput` of each tool takes over, in @cursor/sdk 1.0.18.
TAKEN_BY_CURSOR = {"command", "cwd", "timeout"}


def _cursor_does(asked, answer):
    """It reads the permission; a person's "ask" is for other events, and the model reads the message for the user."""
    if answer.get("permission") == "deny":
        return "blocked", answer["user_message"]
    taken = {name: value for name, value in answer.get("updated_input", {}).items() if name in TAKEN_BY_CURSOR}
    return "runs", asked | taken


def _acp_does(asked, answer):
    """What the client lets the agent do: the protocol carries nothing but a yes or a no."""
    return ("runs", asked) if answer.get("decision") == "allow" else ("blocked", answer["reason"])


_DOES = {
    "claude-code": _claude_does, "codex": _codex_does, "qwen": _qwen_does, "gemini": _gemini_does,
    "copilot": _copilot_does, "opencode": _opencode_does, "acp": _acp_does, "cursor": _cursor_does,
}  # fmt: skip

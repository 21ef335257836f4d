"""Gemini CLI: BeforeTool hooks, which lay the arguments of an answer over the call's own."""

import re

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
    folder,
    path,
    session,
    shell_end,
    text,
    text_or_none,
)
from dashboard.problems import invalid
from dashboard.text import strict_json

GO_ON = {"continue": True}
TURNINGS = {"SessionStart": Began, "SessionEnd": Ended, "AfterAgent": TurnEnded}


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


WAITS = _same("wait_for_previous delay_ms")
FETCHES = {"prompt", *WAITS}  # the arguments of web_fetch
# Gemini CLI fetches each word of the prompt that holds `://`. Only a prompt with one plain address tells where it goes.
ADDRESS = re.compile(r"https?://[!-~]+", re.IGNORECASE)

# The lines that stand below the output of a command.
BELOW = ("Background PIDs: ", "Process Group PGID: ", "</untrusted_context>")


class Gemini(Dialect):
    name, title, program = "gemini", "Gemini CLI", "gemini"
    oldest = (0, 61, 0)
    edits = MERGED
    takes_context = False
    has_call_id = False
    settings_file = ".gemini/settings.json"
    switches = {"hooksConfig": {"enabled": True}}
    faults = dict.fromkeys(("killed", "empty", "late"), RUNS) | dict.fromkeys(("exit 1", "missing", "ask"), BLOCKED)
    tools = {
        "run_shell_command": (
            "Bash",
            {"command": "command", "description": "description", "is_background": "run_in_background", **WAITS},
        ),
        "read_file": ("Read", _same("file_path start_line end_line") | WAITS),
        "write_file": ("Write", _same("file_path content") | WAITS),
        "replace": (
            "Edit",
            _same("file_path old_string new_string instruction") | {"allow_multiple": "replace_all"} | WAITS,
        ),
        "glob": (
            "Glob",
            _same("pattern case_sensitive respect_git_ignore respect_gemini_ignore") | {"dir_path": "path"} | WAITS,
        ),
        "grep_search": (
            "Grep",
            _same("pattern exclude_pattern names_only max_matches_per_file total_max_matches")
            | {"dir_path": "path", "include_pattern": "glob"}
            | WAITS,
        ),
        "list_directory": ("LS", _same("ignore file_filtering_options") | {"dir_path": "path"} | WAITS),
        "update_topic": ("TodoWrite", _same("strategic_intent summary title") | WAITS),
    }
    printing = ("grep_search",)
    limits = (
        gettext_lazy("With --acp it runs no hooks at all."),
        gettext_lazy(
            "An edit cannot remove an argument. It is told which call to make instead, and that call runs without"
            " a second card."
        ),
        gettext_lazy("The model learns that a call was edited, but not how."),
    )

    def canonical(self, tool: str, arguments: dict) -> tuple[str, dict]:
        is_fetch = tool == "web_fetch" and isinstance(arguments, dict) and set(arguments) <= FETCHES
        if is_fetch and (address := _only_address(arguments.get("prompt"))):
            return "WebFetch", {"url": address} | arguments
        return super().canonical(tool, arguments)

    def carries(self, heard: OfCall, arguments: dict) -> bool:
        if heard.native[0] == "web_fetch":  # whose address is within the prompt
            return strict_json.same(arguments, heard.arguments)
        return super().carries(heard, arguments)

    def hooks(self, line: Line) -> dict[str, dict]:
        def entry(role: str, seconds: int) -> dict:
            hook = {"type": "command", "command": line(role), "timeout": seconds * 1000, "name": f"handrail-{role}"}
            return {"matcher": "*", "hooks": [hook]}

        told = dict.fromkeys(("AfterTool", *TURNINGS, "BeforeAgent"), entry("report", REPORT_TIMEOUT))
        return {"BeforeTool": entry("gate", HOOK_TIMEOUT)} | told

    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        event = {"session_id": session, "cwd": cwd, "tool_name": "glob", "tool_input": {"pattern": "*"}}
        if ended:
            return event | {"hook_event_name": "AfterTool", "tool_response": {"llmContent": ""}}
        return event | {"hook_event_name": "BeforeTool"}

    def read(self, event: dict, named: str = "") -> HookEvent:
        name = event.get("hook_event_name") or named
        match name:
            case "BeforeTool" | "AfterTool":
                return self._call(name, event)
            case "BeforeAgent":
                return Prompted(
                    session=text(event, "session_id"), cwd=folder(event), text=text_or_none(event, "prompt")
                )
            case "AfterAgent":
                return TurnEnded(
                    session=text(event, "session_id"),
                    cwd=folder(event),
                    said=text_or_none(event, "prompt_response"),
                    was_kept_going=True,  # what such an answer does has not been tried
                )
            case "SessionStart" | "SessionEnd":
                noted = {each: found for each in ("source", "reason") if (found := text(event, each))}
                return TURNINGS[name](session=text(event, "session_id"), cwd=folder(event), noted=noted)
            case str() if name:
                return Other()
        raise invalid("hook_event_name is missing, so nothing is allowed.")

    def _call(self, name: str, event: dict) -> Before | After:
        tool, arguments = event.get("tool_name"), event.get("tool_input")
        if not isinstance(tool, str):
            raise invalid("tool_name is missing.")
        ours, translated = self.canonical(tool, arguments)
        of_call = {"session": session(event, "session_id"), "tool": ours, "arguments": translated}
        of_call |= {"native": (tool, arguments)}
        if name == "BeforeTool":
            return Before(cwd=path(event, "cwd"), **of_call)
        response = event.get("tool_response")
        told = response if isinstance(response, dict) else {}
        response = text_or_none(told, "llmContent")
        ended = {"failed": bool(told.get("error"))}
        if ours == "Bash" and not ended["failed"]:
            ended = _shell_end(response, runs_on=translated.get("run_in_background") is True)
            response = text_or_none(told, "returnDisplay") if isinstance(told.get("returnDisplay"), str) else response
        return After(cwd=folder(event), event=name, response=response, **ended, **of_call)

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        if not isinstance(heard, Before):
            return dict(GO_ON)
        if reply.decision != ALLOW:
            return self.deny("\n\n".join(filter(None, (reply.reason, reply.context, reply.ends_turn))))
        answer = {"decision": ALLOW, "reason": reply.reason}
        if strict_json.same(reply.arguments, heard.arguments):  # else it tells the model that the call was changed
            return answer
        given = {"hookEventName": "BeforeTool", "tool_input": self.native(heard, reply.arguments)}
        return answer | {"hookSpecificOutput": given}

    def deny(self, reason: str) -> dict:
        return {"decision": DENY, "reason": reason}

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and reply.decision == DENY


def _only_address(prompt) -> str:
    """Return the address in the prompt of a fetch; "" if there is none, or more than one, or one that is not plain."""
    if not isinstance(prompt, str) or prompt.count("://") != 1:
        return ""
    word = next(word for word in prompt.split() if "://" in word)
    return word if ADDRESS.fullmatch(word) else ""


def _shell_end(response: str | None, *, runs_on: bool) -> dict:
    """Return how a shell call ended: Gemini CLI names an exit status or a signal below the output, unless it is 0."""
    if response is None or runs_on:
        return shell_end(None, runs_on=runs_on)
    for line in reversed(response.rstrip().split("\n")):
        name, _, value = line.partition(": ")
        if name in ("Exit Code", "Signal") and value.isdecimal() and len(value) < 6:
            return shell_end(int(value) + (128 if name == "Signal" else 0))
        if not line.startswith(BELOW):
            break
    return shell_end(0)


DIALECT = Gemini()

"""Claude Agent SDK: each tool call of the Claude Code that a program drives asks the desk.

options = gated(ClaudeAgentOptions(…), desk)
async for message in query(prompt="Mend the build", options=options):
    …

The gate is a PreToolUse hook, because Claude Code calls `can_use_tool` only for calls that its permission mode would
prompt for, and never in bypassPermissions. `gated` sets `can_use_tool` too: it answers the prompts that the user's own
settings (`permissions.ask`) cause after the hook. The hooks also post the conversation, from its transcript.
"""

import asyncio
import dataclasses
import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, PermissionResultAllow, PermissionResultDeny

from handrail_client import json_text
from handrail_client.actions import Action, bounded
from handrail_client.claude_transcript import Transcript
from handrail_client.conversation import Conversation
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError, NotAllowed
from handrail_client.gated_calls import Call, Gate, edit_notice

HOOK_TIMEOUT = 86_400.0  # seconds; Claude Code then blocks the call
MAX_WAITING = 64  # calls of one program that wait at the same time
NOT_ASKED = "Handrail could not be asked, so this call was not made. {}"
# Errors of arguments that are no JSON or nested too deeply, beside the client's own errors.
ENCODING_ERRORS = (ValueError, TypeError, OSError, RecursionError)


def gated(options: ClaudeAgentOptions, desk: Handrail, *, ungated: Iterable[str] = ()) -> ClaudeAgentOptions:
    """Return the options with a gate before each tool call.

    `ungated`: tools that Handrail is not asked about; Claude Code's own settings decide about them. Any failure blocks
    the call: no desk, a wrong token, an error of this module. HandrailError if the options already have `can_use_tool`
    or a tool for permission prompts.
    """
    if options.can_use_tool or options.permission_prompt_tool_name:
        raise HandrailError("These options answer permission prompts themselves already.")
    gate = _Gate(desk, frozenset(ungated))
    hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
    before = HookMatcher(hooks=[gate.before], timeout=HOOK_TIMEOUT, on_failure="block")
    hooks["PreToolUse"] = [before, *hooks.get("PreToolUse", [])]
    for event in ("PostToolUse", "PostToolUseFailure"):
        hooks[event] = [*hooks.get(event, []), HookMatcher(hooks=[gate.after])]
    hooks["Stop"] = [*hooks.get("Stop", []), HookMatcher(hooks=[gate.stopped])]
    return dataclasses.replace(options, hooks=hooks, can_use_tool=gate.prompted)


class _Gate:
    """The callbacks of one program. Calls wait in threads of their own, so the program's event loop is not blocked."""

    def __init__(self, desk: Handrail, ungated: frozenset[str]):
        self._desk, self._ungated = desk, ungated
        self._threads = ThreadPoolExecutor(MAX_WAITING, thread_name_prefix="handrail")
        self._running: dict[str, Action] = {}  # by the id of the call
        self._pending: dict[str, Action] = {}
        self._transcripts: dict[tuple[str, str], Transcript] = {}

    async def _in_thread(self, function, *args):
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    async def before(self, event: dict, call_id: str | None, context) -> dict:
        """Answer PreToolUse."""
        self._post(event)
        tool, arguments = event["tool_name"], event["tool_input"]
        if tool in self._ungated:
            return {"continue_": True}
        key = call_id or event.get("tool_use_id") or ""
        call = Call(tool, arguments, event["session_id"], key)
        try:
            used = await self._in_thread(self._used, call, event.get("cwd"))
        except asyncio.CancelledError:
            await self._withdraw(key)
            raise
        if not isinstance(used, Action):
            return _decision("deny", used)
        self._running[key] = used
        notice = edit_notice(used)
        more = {"additionalContext": notice} if notice else {}
        return _decision("allow", f"Allowed at Handrail ({used.name}).", updatedInput=used.arguments, **more)

    def _used(self, call: Call, cwd: str | None) -> Action | str:
        about = {"session": bounded(call.session), "call_id": bounded(call.call_id), "cwd": cwd}
        try:
            action = self._desk.ask(call.tool, call.arguments, key=call.key, **about)
            self._pending[call.call_id] = action
            decided = self._desk.wait(action)
            if decided.status == "approved" and (lost := _lost_digits(decided)):
                self._desk.cancel(decided)
                return lost
            return self._desk.use(decided)
        except NotAllowed as no:
            return str(no)
        except (HandrailError, *ENCODING_ERRORS) as error:
            return NOT_ASKED.format(error)
        finally:
            self._pending.pop(call.call_id, None)

    async def _withdraw(self, key: str):
        if action := self._pending.get(key):
            try:
                await self._in_thread(self._desk.cancel, action)
            except HandrailError:
                pass  # it was decided meanwhile, or no desk answers; the call is not made either way

    async def after(self, event: dict, call_id: str | None, context) -> dict:
        """Report how a call ended."""
        used = self._running.pop(call_id or event.get("tool_use_id") or "", None)
        if used:
            failed = event["hook_event_name"] == "PostToolUseFailure"
            await self._in_thread(self._desk.report_quietly, used, not failed, str(event.get("error") or ""))
        return {"continue_": True}

    async def stopped(self, event: dict, call_id: str | None, context) -> dict:
        """Post what came since the last call, the answer too."""
        await asyncio.wrap_future(self._post(event, str(event.get("last_assistant_message") or "").strip()))
        return {"continue_": True}

    def _post(self, event: dict, answer: str = "") -> Future:
        """Post what is new in the transcript of the event's session, in a thread: a call does not wait for it."""
        key = session, path = event["session_id"], event.get("transcript_path") or ""
        if key not in self._transcripts:
            self._transcripts[key] = Transcript(path, Conversation(Gate(self._desk), session))
        return self._threads.submit(self._transcripts[key].post, answer)

    async def prompted(self, tool: str, arguments: dict[str, Any], context):
        """Answer a permission prompt: allow exactly the call that the hook has allowed, deny every other one."""
        used = self._running.get(context.tool_use_id or "")
        if used and used.tool == tool and used.arguments == arguments:
            return PermissionResultAllow(updated_input=arguments)
        return PermissionResultDeny(message="Handrail has not allowed this call.")


def _lost_digits(action: Action) -> str:
    """Return why a person's edit can't be passed on, or "": the SDK writes numbers as Python does, 1.10 as 1.1."""
    approved, sent = json_text.dumps(action.arguments, ensure_ascii=False), json.dumps(action.arguments)
    if json_text.dumps(json.loads(sent), ensure_ascii=False) == approved:
        return ""
    return f"{action.name} was edited to a number that the SDK can't pass on, so nothing ran. Call it so: {approved}"


def _decision(decision: str, reason: str, **more) -> dict:
    told = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": told | more}

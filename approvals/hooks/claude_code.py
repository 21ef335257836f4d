"""Claude Code's hooks over HTTP.

Claude Code runs the tool when a response is empty, blank or `{}`, so every response here is a full object, and any
failure denies. Its PreToolUse fires in every mode, also when permissions are bypassed.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from asgiref.sync import sync_to_async

from approvals import calls, gate, own_questions, prompts, questions
from approvals.calls import GATE, Call
from approvals.hooks import after_call, held_calls, people, sessions
from approvals.hooks.connection import connection_of
from approvals.hooks.hold import LONGEST_HOLD, check_size, fails_closed, hold, read_body, read_caller
from approvals.hooks.tool_output import result_of
from approvals.models import Action, Status
from approvals.own_questions import ELICITATION
from approvals.talk import interrupts
from approvals.wrapping import can_wrap
from dashboard import clock
from dashboard.models import Event
from dashboard.problems import Problem, invalid
from dashboard.threads import query_in_thread
from workspaces import activity
from workspaces.models import Workspace

GO_ON = {"continue": True}  # changes nothing: the response to events that are only recorded
# For a question or a plan that no person answered here: without a decision Claude Code asks at its own terminal in
# every mode, also when permissions are bypassed.
NO_DECISION = GO_ON | {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}
RECORDED = {"SessionStart": "session.started", "Stop": "session.stopped", "SessionEnd": "session.ended"}
MAX_ID = 200  # characters of a session's or a call's id


def deny(reason: str) -> dict:
    return _decision("deny", reason)


def _decision(decision: str, reason: str, **more) -> dict:
    # Without hookEventName Claude Code ignores the whole response.
    said = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said | more}


@fails_closed(deny)
async def claude_code(request) -> dict:
    if request.method != "POST":
        raise Problem(405, "Send hooks as POST. Nothing is allowed.")
    caller = await query_in_thread(read_caller, request)
    event = await sync_to_async(read_body)(request)
    response = await _response(request, event, caller)
    return await query_in_thread(people.add, response, request, event, caller)


async def _response(request, event: dict, caller) -> dict:
    match event.get("hook_event_name"):
        case "PreToolUse":
            check_size(request)
            try:
                return await _before(request, event, caller)
            except Problem as problem:
                if problem.extra.get("code") != interrupts.CODE:
                    raise
                return deny(problem.detail)
        case "Elicitation":
            check_size(request)
            return await _elicited(request, event, caller)
        case "PostToolUse" | "PostToolUseFailure" as name:
            return await sync_to_async(_after)(request, event, caller, failed=name == "PostToolUseFailure")
        case "UserPromptSubmit":
            await sync_to_async(_note_prompt)(request, event, caller)
        case str(name) if name in RECORDED:
            await sync_to_async(_record)(RECORDED[name], event, caller)
            await sync_to_async(_sign_of_life)(request, event, caller)
            if name in ("Stop", "SessionEnd"):
                return await sync_to_async(_stopped)(request, event, caller)
        case str(name) if name:
            pass  # a newer Claude Code may send events that are not known here
        case _:
            raise invalid("hook_event_name is missing, so nothing is allowed.")
    return GO_ON


async def _before(request, event: dict, caller) -> dict:
    tool = event.get("tool_name")
    if tool in own_questions.TOOLS and not own_questions.can_show(tool, event.get("tool_input")):
        await sync_to_async(_leave_to_its_person)(request, event, caller)
        return NO_DECISION
    call = await sync_to_async(_call)(request, event, caller)
    call = replace(call, wraps=await sync_to_async(can_wrap)(call.tool, call.arguments, call.cwd, call.workspace))
    verdict = await hold(call, request=request, caller=caller)
    shown = {"systemMessage": verdict.user_message} if verdict.user_message else {}
    if verdict.is_left:
        return NO_DECISION | shown
    if not verdict.allowed:
        return deny(verdict.reason) | shown
    arguments, context = verdict.arguments, verdict.context
    if verdict.replays is not None:
        arguments = arguments | {"command": await sync_to_async(held_calls.replayed)(verdict.replays)}
    elif verdict.held is not None:
        arguments = await sync_to_async(held_calls.wrapped)(call, arguments, verdict.held, caller)
        if await sync_to_async(held_calls.is_first)(call, caller):
            context = " ".join(filter(None, (held_calls.CONTEXT, context)))
    told = {"additionalContext": context} if context else {}
    return _decision("allow", verdict.reason, updatedInput=arguments, **told) | shown


async def _elicited(request, event: dict, caller) -> dict:
    """Put what an MCP server asks to a person. Without a decision Claude Code asks at its own terminal."""
    asked = {"server": event.get("mcp_server_name"), "message": event.get("message")}
    asked |= {"mode": event.get("mode"), "requestedSchema": event.get("requested_schema")}
    asked = {name: value for name, value in asked.items() if value is not None}
    if not own_questions.can_show(ELICITATION, asked):
        await sync_to_async(_leave_to_its_person)(request, event, caller)
        return GO_ON
    as_call = {"tool_name": ELICITATION, "tool_input": asked, "tool_use_id": event.get("elicitation_id")}
    verdict = await hold(await sync_to_async(_call)(request, event | as_call, caller), request=request, caller=caller)
    shown = {"systemMessage": verdict.user_message} if verdict.user_message else {}
    if verdict.is_left:
        return GO_ON
    said = {"hookEventName": "Elicitation", "action": "decline"}
    if verdict.answered:
        said |= {"action": "accept", "content": own_questions.answers_in(ELICITATION, verdict.arguments)}
        # No event says how it ended, and nothing runs but what the server asked for.
        report = partial(gate.report, verdict.answered, Status.SUCCEEDED.value, caller=caller, details={})
        connection_of(request).when_sent(report)
    return {"reason": verdict.reason, "hookSpecificOutput": said} | shown


def _leave_to_its_person(request, event: dict, caller):
    gate.refuse_when_stopped(caller.agent.team)
    _sign_of_life(request, event, caller)


def _note_prompt(request, event: dict, caller):
    """Keep what the person asked the agent. It gates nothing, so no failure of it may hold up the prompt."""
    workspace = None
    with suppress(Problem):
        workspace = _workspace(request, event, caller)
    if isinstance(text := event.get("prompt"), str):
        prompts.keep(caller.agent, _text(event, "session_id"), text, workspace)


def _workspace(request, event: dict, caller) -> Workspace | None:
    """Return the workspace that the hook is for, None if there is none. Problem 404, 409, 410."""
    key = request.headers.get("X-Handrail-Workspace") or request.GET.get("workspace")
    cwd = event.get("cwd")
    return calls.find_workspace(key, caller) or (calls.folder_around(cwd, caller) if isinstance(cwd, str) else None)


def _sign_of_life(request, event: dict, caller):
    """Count the start or end of a session as activity of its workspace, as each of its calls does."""
    with suppress(Problem):
        if workspace := _workspace(request, event, caller):
            activity.touch(workspace)


def _call(request, event: dict, caller) -> Call:
    """Return the tool call that an event is about. Problem 404, 409, 410, 422."""
    session = _text(event, "session_id")
    if not session:
        raise invalid("session_id is missing.")
    if not isinstance(event.get("tool_name"), str):
        raise invalid("tool_name is missing.")
    cwd = event.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise invalid("cwd must be a path.")
    return Call(
        tool=event["tool_name"],
        arguments=event.get("tool_input"),
        cwd=cwd,
        workspace=_workspace(request, event, caller),
        mode=GATE,
        hold_s=LONGEST_HOLD,
        session=session,
        call_id=_text(event, "tool_use_id"),
        asked_at=clock.now(),
        transcript=event["transcript_path"] if isinstance(event.get("transcript_path"), str) else "",
    )


def _text(event: dict, name: str) -> str:
    value = event.get(name) or ""
    if not isinstance(value, str) or len(value) > MAX_ID:
        raise invalid(f"{name} must be a text of at most {MAX_ID} characters.")
    return value


def _after(request, event: dict, caller, *, failed: bool) -> dict:
    """Record how a call ended, if it was allowed here; tell the agent what its box refused."""
    action = _let_through(request, event, caller)
    if action is None:
        return GO_ON
    failed = failed or _says_failed(event.get("tool_response"))
    details = result_of(event, action.workspace)
    blocked, ports = after_call.seen(action, event, details, failed=failed)
    note = after_call.ALARM if after_call.ran_differently(action, event, by=caller.actor) else ""
    outcome = Status.FAILED if failed else Status.SUCCEEDED
    gate.report(action, outcome.value, caller=caller, details=details, blocked=blocked, note=note)
    told = after_call.worth_telling(blocked, failed=failed)
    return GO_ON | after_call.for_the_agent(event, told, ports)


def _let_through(request, event: dict, caller) -> Action | None:
    found = sessions.let_through(_text(event, "session_id"), caller)
    if call_id := _text(event, "tool_use_id"):
        return found.filter(call_id=call_id).first()
    return found.filter(call_hash=_call(request, event, caller).hash_for(caller.agent)).first()


def _stopped(request, event: dict, caller) -> dict:
    """Mark calls that a turn or session left running as unclear, and remind the agent once of unused approvals."""
    session = _text(event, "session_id")
    if event["hook_event_name"] == "SessionEnd":
        sessions.leave_unclear(session, caller, sessions.SESSION_OVER)
        return GO_ON
    if isinstance(said := event.get("last_assistant_message"), str):
        questions.said_at_end(session, said, caller=caller)
    if event.get("background_tasks") == []:  # older versions do not send it; background tasks keep running
        sessions.leave_unclear(session, caller, sessions.TURN_OVER)
    # Claude Code sets this when a hook has already kept it from stopping. Never do so twice, or the agent could loop.
    if event.get("stop_hook_active"):
        return GO_ON
    told, actions = sessions.reminder(session, caller)
    for action in actions:
        connection_of(request).when_sent(partial(gate.mark_heard, action))
    return {"decision": "block", "reason": told} if told else GO_ON


def _says_failed(response) -> bool:
    """Return whether a tool's response reports a failure. Its shape differs from tool to tool."""
    if not isinstance(response, dict):
        return False
    went_wrong = (response.get(name) is True for name in ("is_error", "isError", "interrupted"))
    return any(went_wrong) or response.get("success") is False


def _record(verb: str, event: dict, caller):
    data = {"session": _text(event, "session_id")}
    for name in ("source", "permission_mode", "reason"):
        if text := _text(event, name):
            data[name] = text
    Event.objects.record(caller.agent.team_id, actor=caller.actor, verb=verb, subject=caller.agent, data=data)

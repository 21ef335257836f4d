"""Claude Code's hooks over http.

Claude Code runs the tool when an answer is empty, blank or `{}`, so every answer here is a full object, and whatever
fails denies. Its PreToolUse fires in every mode, also when permissions are bypassed.
"""

from contextlib import suppress

from asgiref.sync import sync_to_async

from approvals import calls, gate
from approvals.calls import GATE, Call
from approvals.hooks.holding import fails_closed, hold, read_body, read_caller
from approvals.models import Action, Status
from dashboard.models import Event
from dashboard.problems import Problem, invalid
from workspaces import activity
from workspaces.models import Workspace

GO_ON = {"continue": True}  # changes nothing: the answer to whatever is only recorded
RECORDED = {"SessionStart": "session.started", "Stop": "session.stopped", "SessionEnd": "session.ended"}
NAME = 200  # characters of a session's or a call's id


def deny(reason: str) -> dict:
    return _decision("deny", reason)


def _decision(decision: str, reason: str, **more) -> dict:
    # Without hookEventName Claude Code ignores the whole answer.
    said = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said | more}


@fails_closed(deny)
async def claude_code(request) -> dict:
    if request.method != "POST":
        raise Problem(405, "Hooks are posted here, so nothing is allowed.")
    caller = await sync_to_async(read_caller)(request)
    event = await sync_to_async(read_body)(request)
    match event.get("hook_event_name"):
        case "PreToolUse":
            return await _before(request, event, caller)
        case "PostToolUse" | "PostToolUseFailure" as name:
            await sync_to_async(_after)(request, event, caller, failed=name == "PostToolUseFailure")
        case str(name) if name in RECORDED:
            await sync_to_async(_record)(RECORDED[name], event, caller)
            await sync_to_async(_sign_of_life)(request, caller)
        case str(name) if name:
            pass  # a newer Claude Code may tell more than anybody asked for
        case _:
            raise invalid("hook_event_name is missing, so nothing is allowed.")
    return GO_ON


async def _before(request, event: dict, caller) -> dict:
    call = await sync_to_async(_call)(request, event, caller)
    verdict = await hold(call, caller=caller)
    if not verdict.allowed:
        return deny(verdict.reason)
    told = {"additionalContext": verdict.told} if verdict.told else {}
    return _decision("allow", verdict.reason, updatedInput=verdict.arguments, **told)


def _workspace(request, caller) -> Workspace | None:
    """The one that the hook is for. Problem 404, 409."""
    key = request.headers.get("X-Handrail-Workspace") or request.GET.get("workspace")
    return calls.find_workspace(key, caller)


def _sign_of_life(request, caller):
    """A session that begins or ends keeps its workspace awake, as every call in it does."""
    with suppress(Problem):
        if workspace := _workspace(request, caller):
            activity.touch(workspace)


def _call(request, event: dict, caller) -> Call:
    """The tool call that an event is about; Problem 404, 409, 422."""
    session = _text(event, "session_id")
    if not session:
        raise invalid("session_id is missing, so the answer could not be kept.")
    if not isinstance(event.get("tool_name"), str):
        raise invalid("tool_name is missing.")
    cwd = event.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise invalid("cwd must be a path.")
    return Call(
        tool=event["tool_name"],
        arguments=event.get("tool_input"),
        cwd=cwd,
        workspace=_workspace(request, caller),
        mode=GATE,
        session=session,
        call_id=_text(event, "tool_use_id"),
        mcp_server=_text(event, "mcp_server"),
    )


def _text(event: dict, name: str) -> str:
    value = event.get(name) or ""
    if not isinstance(value, str) or len(value) > NAME:
        raise invalid(f"{name} must be a text of at most {NAME} characters.")
    return value


def _after(request, event: dict, caller, *, failed: bool):
    """Record how a call ended, if it is one that was let through here."""
    action = _let_through(request, event, caller)
    if action is None:
        return
    outcome = Status.FAILED if failed or _says_failed(event.get("tool_response")) else Status.SUCCEEDED
    gate.outcome(action, outcome.value, caller=caller)


def _let_through(request, event: dict, caller) -> Action | None:
    running = Action.objects.visible_to(caller).filter(
        status=Status.RUNNING, mode=GATE, session=_text(event, "session_id")
    )
    if call_id := _text(event, "tool_use_id"):
        return running.filter(call_id=call_id).first()
    call_hash = _call(request, event, caller).hash_for(caller.agent)
    return running.filter(call_hash=call_hash).order_by("-consumed_at").first()


def _says_failed(response) -> bool:
    """Does a tool's response say by itself that it went wrong? Its shape differs from tool to tool."""
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

"""The operation that finds the way back from what an action does outside, and completes it when the action is over.

Before a decision only hosts are asked that the workspace came from, or that the team has a credential for: an agent
chooses the addresses that it pushes to, and an address can carry anything out.
"""

import asyncio
from contextlib import suppress
from functools import partial

from approvals.actions import bound_files, way_back_search
from approvals.evaluation.calls import root_of
from approvals.evaluation.judge import content, current, with_all
from approvals.evaluation.own_verbs import PUSHES
from approvals.evidence import TimeLimit, host_effects, ways_back
from approvals.evidence.deletes import Place
from approvals.evidence.ways_back import Ref, Sought
from approvals.models import Action, Status, WayBackState
from approvals.models import WayBack as Row
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import code_hosts
from workspaces.provisioning.git import putting_back
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.job import Kind
from workspaces.runner.operations.take_back import kept_of, reached
from workspaces.secrets import team_credentials
from workspaces.services import pull_requests, taking_back
from workspaces.services.taking_back import HEADS, PUT_BACK, TAGS, put_back

LOOK_SECONDS = 120.0  # for the whole look, with the sources and hosts that are asked
NOTHING_LEFT = "Nothing left the workspace that could be taken back."
NOT_ASKED = "Handrail does not contact {} before you decide: the team has no credential for it."
NOT_NAMED = "The output does not name what it made, so Handrail can't tell what to take back."
TOO_SLOW = "Looking for a way back took too long."
TOO_LATE = "It was carried out before Handrail had looked for a way back."
NOT_NEEDED = "It is not needed any more."


class WayBack(Kind):
    """Look for the way back of the action in the arguments; only what is found is written."""

    async def perform(self, job):
        await job.refresh()
        action = await job.thread(_action, job.args["action"])
        if job.args["stage"] == way_back_search.AFTER:
            found = await _completed(job, action)
        elif not way_back_search.is_looked_for(action):
            return {"ok": True, "reason": NOT_NEEDED}
        elif way_back_search.is_unused(action):
            if await job.thread(bound_files.bind_rest, action):
                return {"ok": True, "reason": "Its next revision is looked at."}
            found = await look(job, action)
        else:
            found = {"state": WayBackState.NONE, "why_not": TOO_LATE if action.consumed_at else ""}
        failpoint("way_back.found")
        await job.mark_started()
        return {"ok": True, "reason": "Looked.", "digest": action.digest, "found": found}

    def finish(self, job, outcome):
        action = _action(job.args["action"])
        if not outcome["ok"]:
            found = {"state": WayBackState.NONE, "why_not": outcome["reason"]}
        elif "found" not in outcome or outcome["digest"] != action.digest:
            return
        else:
            found = outcome["found"]
        way_back_search.note(action, found, by=way_back_search.HANDRAIL)


async def ensure(job, action: Action):
    """Look for the way back just before the action is carried out: its branches may have moved since it was asked.

    The outcome of Handrail's own push says where its branch was, so that is looked at once.
    """
    action = await job.thread(_action, action.pk)
    row = way_back_search.of(action)
    is_found = row is not None and row.digest == action.digest and row.state != WayBackState.LOOKING
    if (is_found and action.tool in PUSHES) or not await job.thread(way_back_search.is_sought, action):
        return
    found = await look(job, action)
    if not is_found or found.get("steps") != row.steps:
        await job.thread(partial(way_back_search.note, action, found, by=way_back_search.HANDRAIL))


def of_push(action: Action, outcome: dict) -> dict | None:
    """Return the complete way back of one of Handrail's own pushes, by its outcome; None if it was not looked for."""
    if action.tool not in PUSHES or not Row.objects.filter(action=action).exists():
        return None
    steps, pushed, remote = [], outcome.get("pushed") or {}, action.workspace.remote
    if pushed and pushed["from"] != pushed["sha"]:
        steps.append(put_back(remote, HEADS + pushed["branch"], pushed["from"], pushed["sha"]))
    if outcome.get("is_new") and outcome.get("number"):
        steps.append({"do": "close_pull_request", "number": outcome["number"], "repository": remote})
    return _found(action, steps, [], [], WayBackState.READY)


async def look(job, action: Action) -> dict:
    """Return what `way_back_search.note` takes; a look that takes too long ends without a way back."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await _looked(job, action)
    except TimeoutError:
        return {"state": WayBackState.NONE, "why_not": TOO_SLOW}


async def _looked(job, action: Action) -> dict:
    found = await job.thread(_sought, job.workspace, action)
    why_not, steps = list(found.why_not), []
    for remote in dict.fromkeys(ref.remote for ref in found.refs):
        try:
            steps += await _refs_at(job, remote, [ref for ref in found.refs if ref.remote == remote])
        except (CloneFailed, Problem) as error:
            why_not.append(error.detail if isinstance(error, Problem) else str(error))
    for step in found.steps:
        if refused := await job.thread(_without_token, job.workspace.team, step):
            why_not.append(refused)
        else:
            steps.append(step)
    if found.tags and job.workspace.remote:
        refs = [Ref(job.workspace.remote, TAGS + tag, tag) for tag in found.tags]
        with suppress(CloneFailed, Problem):  # the release goes; its tag stays
            steps += [step for step in await _refs_at(job, job.workspace.remote, refs) if not step["to"]]
    return _found(action, steps, found.commands, why_not, WayBackState.FOUND)


def _action(pk) -> Action:
    return with_all(Action.objects.filter(pk=pk)).get()


def _sought(workspace, action: Action, *, is_over: bool = False) -> Sought:
    place = Place(workspace, root_of(workspace), TimeLimit(bound_files.UNHURRIED))
    arguments, commands = content(action)["arguments"], current(action).commands
    return ways_back.sought(place, action.tool, arguments, commands, is_over=is_over)


def _without_token(team, step: dict) -> str:
    """Return why the host of a step cannot be called; "" if there is a token for it."""
    try:
        pull_requests.account_for(team, code_hosts.repository_of(step["repository"]))
    except Problem as problem:
        return problem.detail
    return ""


async def _refs_at(job, remote: str, refs: list[Ref]) -> list[dict]:
    """Return the steps that put the refs back to where the remote has them now. Raise CloneFailed, Problem."""
    await job.thread(_check_asked, job.workspace, remote)
    source, credential = await reached(job, remote)
    names = [name for ref in refs for name in _names(ref)]
    now = await job.thread(partial(putting_back.tips, source, names, credential=credential))
    steps, lost = [], {}
    for ref in refs:
        name = next((each for each in _names(ref) if each in now), _names(ref)[0])
        to, is_deleted = now.get(name, ""), not ref.ref
        if (ref.sha and to == ref.sha) or (is_deleted and not to):
            continue  # it changes nothing
        steps.append(put_back(remote, name, to, "" if is_deleted else None))
        lost |= {name: to} if ref.forced and to else {}
    if lost:
        keep = partial(putting_back.keep, source, lost, kept_of(job.workspace), credential=credential)
        await job.thread(keep)
    return steps


def _names(ref: Ref) -> list[str]:
    return [ref.ref] if ref.ref else [HEADS + ref.name, TAGS + ref.name]


def _check_asked(workspace, remote: str):
    """Raise CloneFailed for an address that nobody but the agent has named."""
    if remote == workspace.remote or remote.startswith(("/", "file://")):
        return
    asked, own = code_hosts.repository_of(remote), code_hosts.repository_of(workspace.remote or "")
    if asked and own and asked.site == own.site:
        return
    origins = (asked.base, f"ssh://{asked.host}") if asked else ()
    if not any(team_credentials.secret_for(workspace.team_id, origin) for origin in origins):
        raise CloneFailed(NOT_ASKED.format(asked.site if asked else "this address"))


def _found(action: Action, steps: list, commands: list, why_not: list[str], state: str) -> dict:
    if not steps and not commands:
        return {"state": WayBackState.NONE, "why_not": " ".join(why_not) or NOTHING_LEFT}
    cwd = commands[0][1] if commands else ""
    with_it = [each for each in commands if each[1] == cwd] if not steps else []
    if len(with_it) < len(commands):
        why_not = [*why_not, *(f"Not taken back with it: {each[0]}." for each in commands if each not in with_it)]
    if steps:
        title = taking_back.words_of(steps)
        arguments = {"action": f"A-{action.number}", "title": title, "steps": steps}
        call = {"tool": way_back_search.TOOL, "arguments": arguments}
    else:
        title = " and ".join(each[2] for each in with_it)
        call = {"tool": "Bash", "arguments": {"command": " && ".join(each[0] for each in with_it)}, "cwd": cwd}
    return {"state": state, "title": title, "call": call, "steps": steps, "why_not": " ".join(why_not)}


# Once it is over ------------------------------------------------------------------------------------------------------


async def _completed(job, action: Action) -> dict:
    """Return the way back of an action that is over, with what it brought about: only what can be told for sure."""
    row, result = way_back_search.of(action), action.result or {}
    found = await job.thread(partial(_sought, job.workspace, action, is_over=True))
    steps, why_not = [], [row.why_not] if row.why_not else []
    refs = [step for step in row.steps if step["do"] == PUT_BACK]
    for remote in dict.fromkeys(step["remote"] for step in refs):
        there = await _left_at(job, remote, [step for step in refs if step["remote"] == remote], found, why_not)
        steps += there
    at_hosts = host_effects.with_numbers([step for step in row.steps if step["do"] != PUT_BACK], _output(result))
    for step in at_hosts:
        whole = await _with_review(job, action, step)
        if taking_back.is_whole(whole):
            steps.append(whole)
        else:
            why_not.append(NOT_NAMED)
    commands = found.commands if not row.steps and action.status == Status.SUCCEEDED else []
    return _found(action, steps, commands, list(dict.fromkeys(why_not)), WayBackState.READY)


def _output(result: dict) -> str:
    return str(result.get("tail") or result.get("note") or "")


async def _left_at(job, remote: str, steps: list[dict], found: Sought, why_not: list[str]) -> list[dict]:
    """Return the steps whose refs the action has moved, with the commits that it left there."""
    source, credential = await reached(job, remote)
    names = [name for step in steps for name in (step["ref"], step["ref"] + "^{}")]
    now = await job.thread(partial(putting_back.tips, source, names, credential=credential))
    pushed = {ref.ref: ref.sha for ref in found.refs if ref.remote == remote and ref.sha}
    kept = []
    for step in steps:
        name, at = step["ref"], now.get(step["ref"], "")
        if at == step["to"]:
            continue  # it did not arrive
        is_ours = at == "" if step["if_at"] == "" else _is_pushed(name, at, now, pushed, step)
        if is_ours:
            kept.append({**step, "if_at": at})
        else:
            why_not.append(putting_back.moved_words(name, at, pushed.get(name, "")))
    return kept


def _is_pushed(name: str, at: str, now: dict, pushed: dict, step: dict) -> bool:
    """Return whether a ref is at the commit that was pushed; a tag that a code host made is its own."""
    if name not in pushed:
        return name.startswith(TAGS) and not step["to"] and bool(at)
    return pushed[name] in (at, now.get(f"{name}^{{}}"))


async def _with_review(job, action: Action, step: dict) -> dict:
    """Return the step with the only review that was given since the action began; as it is otherwise."""
    if step.get("review", 0) is not None:
        return step
    account = await job.thread(pull_requests.account_for, job.workspace.team, _repository(step))
    async with code_hosts.connected(account) as host:
        given = await host.reviews_since(step["number"], action.consumed_at)
    return {**step, "review": given[0]} if len(given) == 1 else step


def _repository(step: dict):
    return code_hosts.repository_of(step["repository"])

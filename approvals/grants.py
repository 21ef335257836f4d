"""Grants: approvals in advance, given on a card; limited in time and number of uses, and revocable.

A grant covers either exactly the call on the card, needing approval for the same reasons, or edits in one folder of
the same workspace. It never covers critical or forbidden calls, and only holds while the person who gave it may decide.
"""

import json
import posixpath
import re
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q

from approvals import calls, judges
from approvals.bound_files import Bound
from approvals.calls import Call, beneath, root_of
from approvals.decisions import APPROVE, decide, may_approve
from approvals.evaluation import OWN_VERBS, PolicyResult, content, covered, current
from approvals.models import Action, ActionEndCode, Grant, Status, Tier
from approvals.policy.rules import FILE_WRITERS
from approvals.transitions import withdraw
from dashboard import clock, lookup
from dashboard.access import caller_of
from dashboard.models import Actor, Event
from dashboard.problems import conflict, invalid, not_allowed

EXACT, FOLDER = "exact", "folder"
MAX_CALL_TEXT = 140  # characters of a call in a grant's description
MAX_MINUTES, MAX_USES = 8 * 60, 100
PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_./ -]*")  # no character in it is special in a rule
HIGH_ONLY = "Only actions that one person can approve can be auto-approved."


# Giving --------------------------------------------------------------------------------------------------------------


def offers(action: Action) -> dict[str, str]:
    """Return what a grant given on this card could cover: {"exact": label, "folder": label}, {} if nothing."""
    if action.tier != Tier.HIGH or action.quorum != 1 or action.tool in OWN_VERBS:
        return {}
    found = {EXACT: "Exactly this call again"}
    if folder := _folder(action):
        where = f"under {folder}" if folder != "/" else "in this workspace"
        found[FOLDER] = f"Editing and creating files {where}, except protected ones"
    return found


def give(action: Action, *, caller, digest: str, covers: str = EXACT, minutes: int = 30, uses: int = 20) -> Grant:
    """Approve the action and grant what `covers` names for `minutes` and `uses`. Problem 403, 422; 409 as `decide`."""
    if not caller.is_person or not caller.can("decide", action.team_id) or not may_approve(action, caller):
        raise not_allowed("Only a reviewer, lead or admin can auto-approve calls.")
    if covers not in (offered := offers(action)):
        raise invalid(
            "Edits in this folder can't be auto-approved; choose exactly this call." if offered else HIGH_ONLY
        )
    if not 1 <= minutes <= MAX_MINUTES or not 1 <= uses <= MAX_USES:
        raise invalid(f"A grant lasts 1 to {MAX_MINUTES} minutes and 1 to {MAX_USES} uses.")
    with transaction.atomic():
        decide(action, APPROVE, caller=caller, digest=digest)
        grant = Grant.objects.create(
            team_id=action.team_id,
            agent=action.agent,
            workspace=action.workspace,
            rules=[_rule(action, covers)],
            says=offered[covers] if covers == FOLDER else _exact_name(action),
            by=caller.user,
            expires_at=clock.now() + timedelta(minutes=minutes),
            uses_left=uses,
        )
        _tell(grant, "grant.given", caller.actor, {"action": str(action.pk), "number": action.number})
    return grant


def _rule(action: Action, covers: str) -> dict:
    revision = current(action)
    if covers == FOLDER:
        return {"rule": _edits_under(_folder(action)), "asked_by": revision.rule}
    call = content(action)
    exactly = _exactly(call["tool"], call["arguments"], call["cwd"], action.workspace, call.get("files", ()))
    return {"call": exactly, "why": revision.reasons, "of": action.number}


def _exact_name(action: Action) -> str:
    """Return a description with the call itself, as two different calls may have the same title."""
    call = content(action)
    command = call["arguments"].get("command")
    is_command = action.tool == "Bash" and isinstance(command, str)
    text = command if is_command else f"{action.tool} {json.dumps(call['arguments'], ensure_ascii=False)}"
    if len(text) > MAX_CALL_TEXT:
        text = f"{text[:MAX_CALL_TEXT]}… ({len(text):,} characters, of {action})"
    moved = action.workspace and call["cwd"] not in (None, root_of(action.workspace))
    where = f" in {call['cwd'][-60:]}" if moved else ""
    return f"Exactly: {text}{where}" + (", with its scripts as they are now" if call.get("files") else "")


def _exactly(tool: str, arguments: dict, cwd: str | None, workspace, files) -> str:
    ignored = calls.IGNORED_ARGUMENTS.get(tool, ())
    kept = {name: value for name, value in arguments.items() if name not in ignored}
    return calls.sha256(calls.canonical(tool, kept, cwd, workspace, files))


def _folder(action: Action) -> str:
    """Return the folder that a grant for this edit could cover, relative to the workspace, as "/src"; "" if none."""
    call = content(action)
    path = call["arguments"].get("file_path")
    if action.workspace is None or action.tool not in FILE_WRITERS or action.undo != "yes" or not isinstance(path, str):
        return ""
    inside = beneath(path, call["cwd"] or root_of(action.workspace), root_of(action.workspace))
    if not inside:
        return ""
    folder = "/" + posixpath.dirname(inside)
    return folder if PLAIN_FOLDER.fullmatch(folder) and _covers_edits(folder, call, action.workspace) else ""


def _edits_under(folder: str) -> str:
    return f"Edit({folder.rstrip('/')}/**)"


def _covers_edits(folder: str, call: dict, workspace) -> bool:
    """Return whether a rule for edits under `folder` would allow this call.

    No rule allows edits of what git or an agent reads as its settings. Judged by the text alone, so that a card is not
    delayed; symlinks are resolved at each use.
    """
    root = root_of(workspace)
    world = {"cwd": call["cwd"] or root, "workspace_root": root}
    try:
        verdict = judges.classify(call["tool"], call["arguments"], rules=[_edits_under(folder)], **world)
    except judges.Late:
        return False
    return verdict.tier == Tier.LOW


# Using ---------------------------------------------------------------------------------------------------------------


def find(call: Call, found: PolicyResult, agent, bound: Bound) -> Grant | None:
    """Return an active grant that covers a call which needs one person's approval. Does not count as a use."""
    if not found.needs_approval or found.tier != Tier.HIGH or call.tool in OWN_VERBS:
        return None
    live = Grant.objects.active(clock.now()).filter(team=agent.team_id, agent=agent, workspace=call.workspace)
    holding = (grant for grant in live.select_related("by") if _holds(grant))
    return next((grant for grant in holding if _covers(grant, call, found, bound)), None)


def _holds(grant: Grant) -> bool:
    """Return whether the person who gave the grant may still decide: members who left or became viewers may not."""
    return caller_of(grant.by).can("decide", grant.team_id)


def _covers(grant: Grant, call: Call, found: PolicyResult, bound: Bound) -> bool:
    return any(
        _is_the_same(rule, call, found, bound) if "call" in rule else _is_such_an_edit(rule, call, found)
        for rule in grant.rules
        if "reads" not in rule  # secret_reads.py: it allows no call
    )


def _is_the_same(rule: dict, call: Call, found: PolicyResult, bound: Bound) -> bool:
    """Return whether the call and its bound files are byte for byte the same and need approval for the same reasons."""
    same = _exactly(call.tool, call.arguments, call.cwd, call.workspace, bound.canonical) == rule["call"]
    return same and bound.complete and found.reasons == rule["why"]


def _is_such_an_edit(rule: dict, call: Call, found: PolicyResult) -> bool:
    """Return whether the call is an edit that the grant's rule allows and that the same policy rule asks about."""
    if call.tool not in FILE_WRITERS or found.rule != rule["asked_by"] or found.undo != "yes":
        return False
    return covered([rule["rule"]], call.tool, call.arguments, call.cwd, call.workspace)


def use(grant: Grant) -> bool:
    """Count one use; False if the grant is used up, revoked or expired."""
    return bool(Grant.objects.active(clock.now()).filter(pk=grant.pk).update(uses_left=F("uses_left") - 1))


def reasons(grant: Grant, found: PolicyResult) -> list[str]:
    """Return sentences: by which grant the call runs, and why it would have needed approval."""
    allowed = f"Auto-approved: {grant.by.get_username()} allowed this until {clock.in_utc(grant.expires_at)}."
    return [allowed, *(f"Without this grant: {said[:1].lower()}{said[1:]}" for said in found.reasons)]


# Revoking ------------------------------------------------------------------------------------------------------------


def revoke(pk, *, caller) -> Grant:
    """Revoke a grant and cancel the unused approvals that it gave. Problem 403, 404, 409."""
    grant = lookup.find(Grant.objects.visible_to(caller), pk, "grant")
    if not caller.is_person or not caller.can("decide", grant.team_id):
        raise not_allowed("Only a reviewer, lead or admin can revoke a grant.")
    now = clock.now()
    with transaction.atomic():
        if not Grant.objects.filter(pk=grant.pk, revoked_at=None).update(revoked_at=now):
            raise conflict("This grant is already revoked.", code="revoked")
        _tell(grant, "grant.revoked", caller.actor, {})
        unused = Q(status=Status.APPROVED, consumed_at=None)
        for action in Action.objects.filter(unused, grant=grant):
            note = "The grant that allowed this was revoked."
            withdraw(action, caller.actor, note, code=ActionEndCode.REVOKED, when=unused)
    grant.refresh_from_db()
    return grant


def _tell(grant: Grant, verb: str, by: Actor, data: dict):
    # The event log must not contain the call's arguments.
    rule = grant.rules[0]
    says = f"Exactly the call of A-{rule['of']}" if "call" in rule else grant.says
    about = {"says": says, "agent": str(grant.agent_id), "until": grant.expires_at.isoformat()}
    Event.objects.record(
        grant.team_id, actor=by, verb=verb, subject=grant, workspace=grant.workspace_id, data=about | data
    )

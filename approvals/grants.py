"""Grants: what a person allowed for a while after seeing it once. Counted, dated, and taken back by one tap.

A grant covers what was on the card and nothing wider: exactly the same call, waiting for the same reasons, or edits in
one folder of the same workspace. It never reaches what is critical or forbidden, and it counts only while whoever gave
it may still decide.
"""

import posixpath
import re
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q

from approvals import calls
from approvals.calls import Call, beneath, root_of
from approvals.models import Action, Grant, Status, Tier
from approvals.moves import move
from approvals.policy import Policy as RuleSet
from approvals.policy import classify
from approvals.policy.rules import FILE_WRITERS
from approvals.reading import OWN_VERBS, Reading, content, covered, current
from approvals.votes import APPROVE, decide, may_say_yes
from dashboard import clock
from dashboard.access import caller_of
from dashboard.models import Actor, Event
from dashboard.problems import conflict, invalid, not_allowed, not_found

EXACT, FOLDER = "exact", "folder"
MOST_MINUTES, MOST_USES = 8 * 60, 100
PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_./ -]*")  # nothing in it means more than itself in a rule
HIGH_ONLY = "Only what one person may allow, and the policy does not forbid, can be allowed for a while."


# Given ---------------------------------------------------------------------------------------------------------------


def offers(action: Action) -> dict[str, str]:
    """What a grant made from this card could cover, in words: {"exact": …, "folder": …}; {} for what none may cover."""
    if action.tier != Tier.HIGH or action.quorum != 1 or action.tool in OWN_VERBS:
        return {}
    found = {EXACT: "Exactly this call again"}
    if folder := _folder(action):
        found[FOLDER] = f"Edits under {folder}" if folder != "/" else "Edits of any file of this workspace"
    return found


def give(action: Action, *, caller, digest: str, covers: str = EXACT, minutes: int = 30, uses: int = 20) -> Grant:
    """Approve what is on the card, and from now on what it covers. Problem 403, 409 as for any answer, 422."""
    if not caller.is_person or not caller.can("decide", action.team_id) or not may_say_yes(action, caller):
        raise not_allowed("A person with the role reviewer, lead or admin allows for a while.")
    if covers not in (offered := offers(action)):
        raise invalid("Such edits cannot be told from others here; allow exactly this call." if offered else HIGH_ONLY)
    if not 1 <= minutes <= MOST_MINUTES or not 1 <= uses <= MOST_USES:
        raise invalid(f"A grant holds for 1 to {MOST_MINUTES} minutes and 1 to {MOST_USES} uses.")
    with transaction.atomic():
        decide(action, APPROVE, caller=caller, digest=digest)
        grant = Grant.objects.create(
            team_id=action.team_id,
            agent=action.agent,
            workspace=action.workspace,
            rules=[_rule(action, covers)],
            says=offered[covers] if covers == FOLDER else action.title,
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
    return {"call": _exactly(call["tool"], call["arguments"], call["cwd"], action.workspace), "why": revision.reasons}


def _exactly(tool: str, arguments: dict, cwd: str | None, workspace) -> str:
    ignored = calls.WITHOUT_EFFECT.get(tool, ())
    kept = {name: value for name, value in arguments.items() if name not in ignored}
    return calls.sha256(calls.canonical(tool, kept, cwd, workspace))


def _folder(action: Action) -> str:
    """The folder below the workspace whose edits this one stands for, as "/src"; "" where there is none."""
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
    """Not where a rule cannot allow, such as for what Git or an agent reads as its own settings.

    By the text alone, so that a card waits for nobody; where symlinks lead is looked at at each use.
    """
    root = root_of(workspace)
    only = RuleSet.of_rules([_edits_under(folder)])
    return (
        classify(call["tool"], call["arguments"], policy=only, cwd=call["cwd"] or root, workspace_root=root).tier
        == "low"
    )


# Used ----------------------------------------------------------------------------------------------------------------


def find(call: Call, found: Reading, agent) -> Grant | None:
    """A grant in force that covers a call which would wait for one person; it is not used up by looking."""
    if not found.waits or found.tier != Tier.HIGH or call.tool in OWN_VERBS:
        return None
    live = Grant.objects.in_force(clock.now()).filter(team=agent.team_id, agent=agent, workspace=call.workspace)
    return next((grant for grant in live.select_related("by") if _holds(grant) and _covers(grant, call, found)), None)


def _holds(grant: Grant) -> bool:
    """While its giver may still decide; who left, or is a viewer now, allows nothing."""
    return caller_of(grant.by).can("decide", grant.team_id)


def _covers(grant: Grant, call: Call, found: Reading) -> bool:
    return any(
        _is_the_same(rule, call, found) if "call" in rule else _is_such_an_edit(rule, call, found)
        for rule in grant.rules
    )


def _is_the_same(rule: dict, call: Call, found: Reading) -> bool:
    """Byte for byte, and nothing has come to light since that would be another reason to wait."""
    same = _exactly(call.tool, call.arguments, call.cwd, call.workspace) == rule["call"]
    return same and found.reasons == rule["why"]


def _is_such_an_edit(rule: dict, call: Call, found: Reading) -> bool:
    """Not where another rule of the policy names this path."""
    if call.tool not in FILE_WRITERS or found.rule != rule["asked_by"] or found.undo != "yes":
        return False
    return covered([rule["rule"]], call.tool, call.arguments, call.cwd, call.workspace)


def use(grant: Grant) -> bool:
    """Count one use; False when it ran out, was revoked or expired meanwhile."""
    return bool(Grant.objects.in_force(clock.now()).filter(pk=grant.pk).update(uses_left=F("uses_left") - 1))


def words(grant: Grant) -> str:
    return f"Allowed without asking: {grant.by.get_username()} allowed this until {grant.expires_at:%H:%M} UTC."


# Taken back ----------------------------------------------------------------------------------------------------------


def revoke(pk, *, caller) -> Grant:
    """End a grant, and what it allowed and nobody has collected. Problem 403, 404, 409."""
    grant = Grant.objects.visible_to(caller).filter(pk=pk).first()
    if grant is None:
        raise not_found("grant")
    if not caller.is_person or not caller.can("decide", grant.team_id):
        raise not_allowed("A person with the role reviewer, lead or admin takes a grant back.")
    now = clock.now()
    with transaction.atomic():
        if not Grant.objects.filter(pk=grant.pk, revoked_at=None).update(revoked_at=now):
            raise conflict("This was taken back already.", code="revoked")
        _tell(grant, "grant.revoked", caller.actor, {})
        result = {"by": caller.actor.label, "note": "The grant that allowed this was taken back."}
        uncollected = Q(status=Status.APPROVED, consumed_at=None)
        for action in Action.objects.filter(uncollected, grant=grant):
            ends = {"data": {"why": "revoked"}, "ended_at": now, "result": result}
            move(action, Status.CANCELLED, verb="action.cancelled", by=caller.actor, when=uncollected, **ends)
    grant.refresh_from_db()
    return grant


def _tell(grant: Grant, verb: str, by: Actor, data: dict):
    about = {"says": grant.says, "agent": str(grant.agent_id), "until": grant.expires_at.isoformat()}
    Event.objects.record(
        grant.team_id, actor=by, verb=verb, subject=grant, workspace=grant.workspace_id, data=about | data
    )

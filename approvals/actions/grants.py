"""Grants: approvals in advance, given on a card; limited in time and number of uses, and revocable.

What a grant covers is its scope (grant_scopes.py). It never covers critical or forbidden calls, and only holds while
the person who gave it may decide.
"""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import translation

from approvals.actions import grant_scopes, own_agents
from approvals.actions.answer import APPROVE, Answer
from approvals.actions.bound_files import FILE, Bound
from approvals.actions.decisions import decide, may_approve_scope
from approvals.actions.grant_scopes import EXACT, Scope
from approvals.actions.transitions import withdraw
from approvals.evaluation.calls import Call, root_of
from approvals.evaluation.judge import PolicyResult, content, current, with_all
from approvals.evaluation.own_verbs import OWN_VERBS
from approvals.models import Action, ActionEndCode, Grant, Status, Tier
from approvals.questions import own_questions
from dashboard import json_text
from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.people.access import caller_of
from dashboard.problems import conflict, invalid, not_allowed
from dashboard.web import lookup

MAX_CALL_TEXT = 140  # characters of a call in a grant's description
MAX_MINUTES, MAX_USES = 24 * 60, 100
LOOKS_BACK = timedelta(days=7)
MAX_LOOKED_AT = 60  # calls among which examples are looked for
MAX_SAYS = 300  # characters of Grant.says
HIGH_ONLY = "Only actions that one person can approve can be auto-approved."


# Giving --------------------------------------------------------------------------------------------------------------


def offers(action: Action) -> dict[str, str]:
    """Return what a grant given on this card could cover: {name of the scope: label}, {} if nothing."""
    return {scope.name: scope.label for scope in grant_scopes.of_action(action)}


def approve_and_grant(
    action: Action, *, caller, digest: str, covers: str = EXACT, minutes: int = 30, uses: int = 20
) -> Grant:
    """Approve the action and grant what `covers` names for `minutes` and `uses`. Problem 403, 422; 409 as `decide`."""
    if not caller.is_person or not caller.can("decide", action.team_id) or not may_approve_scope(action, caller):
        raise not_allowed("Only a reviewer, lead or admin can auto-approve calls.")
    with translation.override(settings.LANGUAGE_CODE):  # what the grant covers is recorded
        offered = {scope.name: scope for scope in grant_scopes.of_action(action)}
    if covers not in offered:
        raise invalid(f"This call offers only: {', '.join(offered)}." if offered else HIGH_ONLY)
    if not 1 <= minutes <= MAX_MINUTES or not 1 <= uses <= MAX_USES:
        raise invalid(f"A grant lasts 1 to {MAX_MINUTES} minutes and 1 to {MAX_USES} uses.")
    with transaction.atomic():
        decide(action, Answer(APPROVE, digest), caller=caller)
        grant = Grant.objects.create(
            team_id=action.team_id,
            agent=action.agent,
            workspace=action.workspace,
            rules=[offered[covers].entry],
            says=_exact_name(action) if covers == EXACT else offered[covers].label[:MAX_SAYS],
            by=caller.user,
            expires_at=clock.now() + timedelta(minutes=minutes),
            uses_left=uses,
        )
        _tell(grant, "grant.given", caller.actor, {"action": str(action.pk), "number": action.number})
    return grant


def _exact_name(action: Action) -> str:
    """Return a description with the call itself, as two different calls may have the same title."""
    call = content(action)
    command = call["arguments"].get("command")
    is_command = action.tool == "Bash" and isinstance(command, str)
    text = command if is_command else f"{action.tool} {json_text.dumps(call['arguments'], ensure_ascii=False)}"
    if len(text) > MAX_CALL_TEXT:
        text = f"{text[:MAX_CALL_TEXT]}… ({len(text):,} characters, of {action})"
    moved = action.workspace and call["cwd"] not in (None, root_of(action.workspace))
    where = f" in {call['cwd'][-60:]}" if moved else ""
    return f"Exactly: {text}{where}" + (", with its scripts as they are now" if call.get("files") else "")


def examples(action: Action, scope: Scope) -> list[Action]:
    """Return calls of the last week for which a person was asked and that the scope would have covered, newest first.

    Looks at the newest MAX_LOOKED_AT calls of the same agent and workspace, as the policy judged them then.
    """
    since = clock.now() - LOOKS_BACK
    asked = Action.objects.filter(agent=action.agent, workspace=action.workspace, tier=Tier.HIGH, grant=None)
    newest = with_all(asked.filter(created_at__gte=since).exclude(pk=action.pk)).order_by("-created_at")
    return [past for past in newest[:MAX_LOOKED_AT] if _would_cover(scope, past)]


def _would_cover(scope: Scope, past: Action) -> bool:
    revision, asked = current(past), content(past)
    call = Call(
        tool=asked["tool"],
        arguments=asked["arguments"],
        cwd=asked["cwd"],
        workspace=past.workspace,
        session=past.session,
        own_verb=True,  # it was checked when it was submitted
    )
    if call.tool in (*OWN_VERBS, *own_questions.TOOLS):
        return False
    found = PolicyResult(past.tier, revision.reasons, revision.undo, past.title, revision.rule, revision.commands)
    bound = Bound([file | {"state": FILE} for file in asked.get("files", [])])
    return grant_scopes.covers(scope.entry, call, found, bound, allows=grant_scopes.allows_by_text)


# Using ---------------------------------------------------------------------------------------------------------------


def find(call: Call, found: PolicyResult, agent, bound: Bound) -> Grant | None:
    """Return an active grant that covers a call which needs one person's approval. Does not count as a use."""
    if not found.needs_approval or found.tier != Tier.HIGH or not found.takes.takes_one:
        return None
    if call.tool in (*OWN_VERBS, *own_questions.TOOLS):
        return None
    if found.takes_person:
        return None
    live = Grant.objects.active(clock.now()).filter(team=agent.team_id, agent=agent, workspace=call.workspace)
    holding = (grant for grant in live.select_related("by", "agent", "team") if holds(grant))
    return next((grant for grant in holding if _covers(grant, call, found, bound)), None)


def holds(grant: Grant) -> bool:
    """Return whether the person who gave the grant may still approve what its agent asks.

    Members who left or became viewers may not, and where the team says so, neither may the agent's owner.
    """
    return own_agents.may_grant(grant) and caller_of(grant.by).can("decide", grant.team_id)


def _covers(grant: Grant, call: Call, found: PolicyResult, bound: Bound) -> bool:
    return any(grant_scopes.covers(entry, call, found, bound) for entry in grant.rules)


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
    with Team.objects.turn(grant.team_id):
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
    says = (
        f"{'Exactly the call' if 'call' in rule else 'Calls like that'} of A-{rule['of']}"
        if "of" in rule
        else grant.says
    )
    about = {"says": says, "agent": str(grant.agent_id), "until": grant.expires_at.isoformat()}
    Event.objects.record(
        grant.team_id, actor=by, verb=verb, subject=grant, workspace=grant.workspace_id, data=about | data
    )

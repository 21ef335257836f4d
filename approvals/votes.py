"""A person's answer: approve, deny or edit, bound to the digest that was on the screen."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals import calls
from approvals.calls import sha256
from approvals.endings import end_if_due
from approvals.models import Action, Decision, Status, Tier
from approvals.moves import add_revision, approve, lost, move, tell
from approvals.reading import Reading, Unjudged, content, current, judge
from dashboard import clock
from dashboard.access import ROLES, Caller
from dashboard.failpoints import failpoint
from dashboard.models import Membership
from dashboard.problems import invalid, not_allowed, unavailable

APPROVE, DENY, EDIT = "approve", "deny", "edit"
COMMENT = 4000


def decide(action: Action, verdict: str, *, caller, digest: str, arguments: dict | None = None, comment: str = ""):
    """Answer; returns the action, still pending when this was a vote short of the quorum.

    The first final verdict wins: everyone else gets Problem 409 with the winner, as does whoever looked at other bytes.
    An edit that the policy forbids, or that makes no sense, is Problem 422 and changes nothing.
    """
    failpoint("K4")
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("A person with the role reviewer, lead or admin decides.")
    if verdict != DENY and not may_say_yes(action, caller):
        raise not_allowed("This changes the environment of every new workspace; a lead or an admin decides on it.")
    if verdict not in (APPROVE, DENY, EDIT):
        raise invalid("A verdict is approve, deny or edit.")
    if len(comment) > COMMENT:
        raise invalid(f"A comment has at most {COMMENT:,} characters.")
    if (arguments is not None) != (verdict == EDIT):
        raise invalid("An edit brings the whole arguments, and nothing else does.")
    end_if_due(action)
    edited = None
    if verdict == EDIT:
        edited = _edited(action, digest, arguments)
        verdict = verdict if edited else APPROVE  # nothing was changed: that is a plain yes
    with transaction.atomic():
        still_open = Q(status=Status.PENDING, digest=digest, expires_at__gt=clock.now())
        # The lock lets votes be counted one after the other; the conditional update decides all the same.
        answered = Action.objects.select_for_update().filter(still_open, pk=action.pk).exists() and (
            _deny(action, still_open, caller, comment)
            if verdict == DENY
            else _approve(action, still_open, caller, comment)
            if verdict == APPROVE
            else _edit(action, still_open, caller, comment, *edited)
        )
    if not answered:
        action.refresh_from_db()
        raise lost(end_if_due(action))
    failpoint("K5")
    return action


def extend(action: Action, *, caller):
    """Let an open action wait as long from now as a new one would; never shorter than it would anyway."""
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("A person with the role reviewer, lead or admin extends the wait.")
    now = clock.now()
    until = now + timedelta(seconds=settings.HANDRAIL_EXPIRY_SECONDS)
    still_open = Q(status=Status.PENDING, expires_at__gt=now, expires_at__lt=until)
    data = {"until": until.isoformat()}
    if not move(
        action, Status.PENDING, verb="action.extended", by=caller.actor, when=still_open, data=data, expires_at=until
    ):
        action.refresh_from_db()
        if end_if_due(action).status != Status.PENDING:
            raise lost(action)


def may_say_yes(action: Action, caller) -> bool:
    """An answer gives nobody a right that they have not: an environment is changed by who may change it."""
    if action.tool != "Handrail.Allow" or content(action)["arguments"].get("scope") != "environment":
        return True
    return caller.can("manage_environments", action.team_id)


def votes(action: Action) -> list[Decision]:
    """Who has said yes to the current revision and may still decide; oldest first."""
    deciders = [role for role in ROLES if Caller(roles={action.team_id: role}).can("decide", action.team_id)]
    people = Membership.objects.filter(team=action.team_id, role__in=deciders, user__is_active=True).values("user")
    given = action.decisions.filter(verdict=APPROVE, revision__number=action.revision, user__in=people)
    return list(given.select_related("user").order_by("at"))


def _note(action: Action, caller, verdict: str, comment: str, *, revision, final: bool):
    """Keep one answer of each person to each revision: whoever votes again has changed their mind."""
    Decision.objects.update_or_create(
        revision=revision,
        user=caller.user,
        defaults={"action": action, "verdict": verdict, "comment": comment, "at": clock.now(), "final": final},
    )


def _deny(action: Action, still_open: Q, caller, comment: str) -> bool:
    now = clock.now()
    ends = {"decided_at": now, "ended_at": now}
    if not move(action, Status.DENIED, verb="action.denied", by=caller.actor, when=still_open, **ends):
        return False
    _note(action, caller, DENY, comment, revision=current(action), final=True)
    return True


def _approve(action: Action, still_open: Q, caller, comment: str) -> bool:
    action.refresh_from_db()
    revision = current(action)
    _note(action, caller, APPROVE, comment, revision=revision, final=False)
    given = len(votes(action))
    data = {"votes": given, "quorum": action.quorum}
    if given < action.quorum:
        tell(action, "action.vote", caller.actor, data)
        return True
    if not approve(action, verb="action.approved", by=caller.actor, when=still_open, data=data):
        return False
    Decision.objects.filter(revision=revision, user=caller.user).update(final=True)
    return True


def _edited(action: Action, digest: str, arguments: dict) -> tuple[bytes, Reading] | None:
    """The bytes of the edit and what the policy says of them; None when they are those that were shown."""
    was = content(action)
    calls.check(was["tool"], arguments, was["cwd"], action.workspace, action.mode)
    canonical = calls.canonical(was["tool"], arguments, was["cwd"], action.workspace)
    if sha256(canonical) == digest:
        return None
    try:
        found = judge(was["tool"], arguments, was["cwd"], action.workspace, action.team_id)
    except Unjudged as error:
        raise unavailable(f"The policy cannot be asked ({error}), so this edit cannot be taken.") from None
    if found.tier == Tier.FORBIDDEN:
        raise invalid(
            "The policy forbids what you made of it. Nothing was changed.", code="forbidden", reasons=found.reasons
        )
    return canonical, found


def _edit(action: Action, still_open: Q, caller, comment: str, canonical: bytes, found: Reading) -> bool:
    """The next revision: approved at once where one person may decide its tier, else it waits without votes.

    So whoever raises an action to critical is never its only approver.
    """
    action.refresh_from_db()
    was = current(action)
    fields = {
        "revision": action.revision + 1,
        "digest": sha256(canonical),
        "tier": found.tier,
        "undo": found.undo,
        "title": found.title,
        "policy": found.policy,
        "quorum": found.quorum,
    }
    data = {"was": was.digest, "revision": was.number + 1}
    if not move(action, Status.PENDING, verb="action.edited", by=caller.actor, when=still_open, data=data, **fields):
        return False
    revision = add_revision(action, action.revision, canonical, found, caller.actor)
    alone = found.quorum <= 1
    _note(action, caller, EDIT, comment, revision=was, final=alone)
    if not alone:
        tell(action, "action.waiting", caller.actor, {"undo": action.undo, "quorum": action.quorum})
        return True
    mine = Q(status=Status.PENDING, digest=revision.digest)
    return approve(action, verb="action.approved", by=caller.actor, when=mine, data={"edited": True})

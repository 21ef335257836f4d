"""Record a person's answer: approve, deny or edit, bound to the digest that the person saw."""

from dataclasses import dataclass, replace
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from approvals.actions import (
    bound_files,
    drills,
    mcp_tools,
    own_agents,
    quorum,
    rehearsals,
    rendered_card,
    solo,
    way_back_search,
)
from approvals.actions.answer import APPROVE, DENY, EDIT, Answer
from approvals.actions.expiry import end_if_due
from approvals.actions.step_up import requirement
from approvals.actions.transitions import add_revision, answer_conflict, approve, move, record
from approvals.evaluation import calls
from approvals.evaluation.calls import sha256
from approvals.evaluation.judge import PolicyResult, PolicyUnavailable, can_be_held, content, current, judge
from approvals.evidence import Allowance, evidence_of
from approvals.evidence.keeping import pack
from approvals.models import AapRequest, Action, Decision, DecisionEvidence, LineComment, Revision, Status, Tier
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import conflict, invalid, not_allowed, unavailable
from dashboard.workers.failpoints import failpoint
from handrail_verify.passkeys import in_event

MAX_COMMENT = 4000


@dataclass(frozen=True)
class Approval:
    """How an action is approved: what was shown, alone or not, held or not, applied or run, and with which passkey."""

    evidence: bytes | None
    alone: solo.SoloRequest | None
    unheld: bool
    tree: str
    passkey: dict | None  # what approvals.actions.step_up.assertions keeps
    rendered: dict | None = None  # what the page showed of the call (handrail_verify.card)

    @property
    def assertion(self) -> dict:
        """What is kept with the decision as proof of who made it."""
        alone = self.alone
        found = {"solo": True, "signed_in_at": alone.at.isoformat(), "how": alone.how} if alone else {}
        found |= {"rendered": self.rendered} if self.rendered else {}
        return found | ({"passkey": self.passkey} if self.passkey else {})


def decide(action: Action, answer: Answer, *, caller, allowance: Allowance | None = None) -> Action:
    """Record an answer and return the action, which stays pending while votes are missing for the quorum.

    `allowance`: what the evidence that is kept with an approval may take, if it is for several together.

    The first final verdict wins: later answers raise Problem 409 with the winner, as do answers to another digest.
    An edit that the policy forbids, or that is invalid, raises Problem 422 and changes nothing. Problem 403.
    """
    failpoint("K4")
    _check(action, answer, caller)
    _check_wishes(action, answer)
    end_if_due(action)
    edited = _edited(action, answer) if answer.verdict == EDIT else None
    if answer.verdict == EDIT and not edited:
        answer = replace(answer, verdict=APPROVE)  # an edit that changes nothing is an approval
    # What it needs is gathered before the transaction, because that may take two seconds.
    how = _approval(action, answer, caller, allowance or Allowance()) if answer.verdict == APPROVE else None
    # The turn serializes the counting of votes; the winner is decided by the conditional update.
    with Team.objects.turn(action.team_id):
        still_open = Q(status=Status.PENDING, digest=answer.digest, expires_at__gt=clock.now())
        still_open &= Q(rehearsal=action.rehearsal_id) if how and how.tree else Q()
        answered = _load_open(action, still_open)
        if answered and answer.verdict != DENY:
            own_agents.refuse(action, caller)  # again, as the team may have just said so
        drill = drills.open_drill(action) if answered else None
        if drill:
            answered = drills.answer(drill, action, answer, still_open, caller=caller)
        elif answered and how:
            answered = _approve(action, still_open, caller, answer, how)
        elif answered and edited:
            answered = _edit(action, still_open, caller, answer, edited)
        elif answered:
            answered = _deny(action, still_open, caller, answer)
    if not answered:
        action.refresh_from_db()
        raise answer_conflict(end_if_due(action))
    failpoint("K5")
    return action


def _approval(action: Action, answer: Answer, caller, allowance: Allowance) -> Approval:
    """Return how the action would be approved; of one that is not open for this answer nothing is looked at."""
    if action.status != Status.PENDING or action.digest != answer.digest:
        return Approval(None, answer.alone, answer.unheld, "", None)
    with allowance.spending() as seconds:
        evidence = pack(evidence_of(action, current(action), seconds))
    tree = rehearsals.tree_to_apply(action, answer.rehearsal) if answer.apply else ""
    confirmed = _confirmed(action, caller, answer, tree) if answer.passkey else None
    return Approval(evidence, answer.alone, answer.unheld, tree, confirmed, answer.rendered)


def _load_open(action: Action, still_open: Q) -> bool:
    """Load the action, with its team, as it is now; False if it is no longer open for this answer."""
    try:
        action.refresh_from_db(from_queryset=Action.objects.filter(still_open))
    except Action.DoesNotExist:
        return False
    return True


def _check_wishes(action: Action, answer: Answer):
    """Raise Problem 422 if the answer asks for what its verdict cannot do."""
    verdict = answer.verdict
    if answer.send_back and (verdict != DENY or not answer.comment.strip() or action.tool in own_questions.TOOLS):
        raise invalid("Only the denial of a call, with a comment, can say what to do first.")
    if answer.unheld and (verdict != APPROVE or not can_be_held(action.mode, action.tool, action.workspace)):
        raise invalid("Only the approval of a command that runs in an envelope can take the envelope away.")
    if answer.apply and (verdict != APPROVE or answer.unheld):
        raise invalid("Only an approval can apply what the rehearsal did.")


def _check(action: Action, answer: Answer, caller):
    """Raise Problem 403 unless the caller may give this answer, 422 if it is invalid."""
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can decide.")
    if answer.verdict != DENY and not may_approve_scope(action, caller):
        raise not_allowed(
            "This changes the environment of every new workspace, so only a lead or admin can approve it."
        )
    if answer.verdict != DENY:
        own_agents.refuse(action, caller)
    if answer.verdict not in (APPROVE, DENY, EDIT):
        raise invalid("A verdict must be approve, deny or edit.")
    if len(answer.comment) > MAX_COMMENT:
        raise invalid(f"A comment can have at most {MAX_COMMENT:,} characters.")
    if (answer.arguments is not None) != (answer.verdict == EDIT):
        raise invalid("An edit needs all arguments; other verdicts take none.")
    if action.tool in own_questions.TOOLS:
        own_questions.check_verdict(action.tool, answer.verdict, content(action)["arguments"], answer.arguments)


def _confirmed(action: Action, caller, answer: Answer, tree: str) -> dict:
    from approvals.actions.step_up import assertions  # here: it loads a library that only web needs

    alone, rendered = bool(answer.alone), answer.rendered
    verdict = requirement.verdict_of(alone=alone, unheld=answer.unheld, tree=tree, rendered=rendered)
    return assertions.confirm(action, caller=caller, digest=action.digest, verdict=verdict, answer=answer.passkey)


def extend(action: Action, *, caller):
    """Extend a pending action's expiry to that of a new action; never shorten it. Problem 403, 409.

    A hook's action expires before its hook ends, as nothing would receive a later answer.
    """
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can extend the expiry.")
    now = clock.now()
    until = now + timedelta(seconds=settings.HANDRAIL_EXPIRY_SECONDS)
    if action.hold_until:
        until = min(until, action.hold_until)
    still_open = Q(status=Status.PENDING, expires_at__gt=now, expires_at__lt=until)
    data = {"until": until.isoformat()}
    if not move(
        action, Status.PENDING, verb="action.extended", by=caller.actor, when=still_open, data=data, expires_at=until
    ):
        action.refresh_from_db()
        if end_if_due(action).status != Status.PENDING:
            raise answer_conflict(action)


def _unused(caller) -> Q:
    """Match actions of which nothing has used the caller's answer: not consumed, carried out or told to an agent."""
    unheard = Q(agent_seen_at=None) | Q(agent_seen_at__lt=F("decided_at"))
    approved = Q(status=Status.APPROVED, consumed_at=None, operation=None)
    in_time = Q(expires_at__gt=clock.now())
    mine = Q(decisions__final=True, decisions__user=caller.user, decisions__verdict__in=(APPROVE, DENY))
    # The first answer to a drill ends it.
    return unheard & (approved | Q(status=Status.DENIED)) & in_time & mine & Q(drill=None)


def _not_used(action: Action, caller) -> Q:
    """Match the action, as it is now, while nothing has used the caller's answer."""
    # The id inside too, so that the database looks at this action alone.
    answered = Action.objects.filter(_unused(caller), pk=action.pk, digest=action.digest)
    return Q(pk__in=answered.values("pk"))


def may_take_back(action: Action, caller) -> bool:
    """Return whether the caller gave the action's last answer and nothing has used it yet."""
    may = caller.is_person and caller.can("decide", action.team_id)
    return may and Action.objects.filter(_not_used(action, caller), pk=action.pk).exists()


def those_to_take_back(actions, caller) -> set:
    """Return the ids of those actions of a queryset whose answer the caller may take back, by one query."""
    teams = [team for team in caller.team_ids if caller.can("decide", team)]
    return (
        set(actions.filter(_unused(caller), team__in=teams).values_list("pk", flat=True)) if caller.is_person else set()
    )


def take_back(action: Action, *, caller):
    """Withdraw the caller's own answer while nothing has used it; the action is pending again. Problem 403, 409.

    An agent that has read of an approval and not used it finds the action pending when it tries to.
    """
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can take an answer back.")
    was = action.status
    answers = action.decisions.filter(final=True, user=caller.user)
    empty = {"decided_at": None, "ended_at": None, "consume_by": None}
    data = {"was": str(was)}
    try:
        with transaction.atomic():
            when = _not_used(action, caller)
            done = move(action, Status.PENDING, verb="action.reopened", by=caller.actor, when=when, data=data, **empty)
            if done:
                LineComment.objects.filter(decision__in=answers).update(decision=None, sent_at=None, agent=None)
                answers.delete()
                # The next decision gets a webhook too, also if the webhook of this one is being sent.
                AapRequest.objects.filter(action=action, instance__url__gt="").update(notify_at=clock.now())
    except IntegrityError:  # the agent has made the same call again meanwhile
        done = False
    if not done:
        action.refresh_from_db()
        raise conflict("Too late to undo: the agent has this answer, or asked again.", code="answer_used")


def may_approve_scope(action: Action, caller) -> bool:
    """Return False for an approval that changes an environment by a person who may not manage environments."""
    if action.tool != "Handrail.Allow" or content(action)["arguments"].get("scope") != "environment":
        return True
    return caller.can("manage_environments", action.team_id)


def _record_answer(
    action: Action,
    caller,
    answer: Answer,
    *,
    revision,
    final: bool,
    evidence: bytes | None = None,
    how: Approval | None = None,
) -> Decision:
    """Store one answer for each person and revision; a new one replaces the person's earlier answer."""
    fields = {"action": action, "verdict": answer.verdict, "comment": answer.comment, "final": final}
    fields |= {"do_first": answer.send_back, "unheld": answer.unheld, "applied_tree": how.tree if how else ""}
    fields |= {"assertion": (how and how.assertion) or None, "at": clock.now()}
    # The team's turn is taken: no other answer comes in between.
    decision = Decision.objects.filter(revision=revision, user=caller.user).first() or Decision(
        revision=revision, user=caller.user
    )
    for name, value in fields.items():
        setattr(decision, name, value)
    is_new = decision._state.adding
    decision.save(force_insert=is_new, force_update=not is_new)
    if evidence is not None:
        row = DecisionEvidence(decision=decision, body=evidence)
        DecisionEvidence.objects.bulk_create(
            [row], update_conflicts=True, unique_fields=["decision"], update_fields=["body"]
        )
    return decision


def _deny(action: Action, still_open: Q, caller, answer: Answer) -> bool:
    now, verb = clock.now(), "action.sent_back" if answer.send_back else "action.denied"
    ends = {"decided_at": now, "ended_at": now}
    if not move(action, Status.DENIED, verb=verb, by=caller.actor, when=still_open, **ends):
        return False
    _record_answer(action, caller, answer, revision=current(action), final=True)
    return True


def is_unheld(action: Action) -> bool:
    """Return whether each person who approved the current revision chose that it runs without an envelope."""
    return _all_unheld(quorum.votes(action))


def _all_unheld(given: list[Decision]) -> bool:
    return bool(given) and all(vote.unheld for vote in given)


def _approve(action: Action, still_open: Q, caller, answer: Answer, how: Approval) -> bool:
    requirement.refuse_without(action, caller, how.passkey)
    others = [vote for vote in quorum.votes(action) if vote.user_id != caller.user.pk]
    if any(vote.applied_tree != how.tree for vote in others):
        name, what = others[0].user, "the result of the rehearsal" if others[0].applied_tree else "running it"
        raise conflict(f"{name} approved {what}. Approve the same, or deny it.", code="other_approval")
    if how.alone:
        solo.check(action, caller, how.alone)
    revision = current(action)
    mine = _record_answer(action, caller, answer, revision=revision, final=False, evidence=how.evidence, how=how)
    now_given = [*others, mine]
    data = {"votes": len(now_given), "quorum": action.quorum} | ({"solo": True} if how.alone else {})
    data |= {"role": action.quorum_role} if action.quorum_role else {}
    data |= {"groups": action.quorum_groups} if action.quorum_groups else {}
    data |= {"envelope": "none"} if _all_unheld(now_given) else {}
    data |= {"applies": "rehearsal", "tree": how.tree} if how.tree else {}
    data |= rendered_card.in_event(how.rendered, revision.canonical)
    data |= _passkey_in_event(how)
    people = [vote.user_id for vote in now_given]
    if not how.alone and not quorum.is_met(action.team_id, people, action.takes):
        record(action, "action.vote", caller.actor, data)
        return True
    if not approve(action, verb="action.approved", by=caller.actor, when=still_open, data=data, tree=how.tree):
        return False
    Decision.objects.filter(pk=mine.pk).update(final=True)
    mcp_tools.accept(action)
    return True


def _passkey_in_event(how: Approval) -> dict:
    return {} if how.passkey is None else {"passkey": in_event(how.passkey)}


@dataclass(frozen=True)
class Edited:
    """An edit: its bytes, the verdict on them, the files they bind, whether those were shown, and the evidence."""

    canonical: bytes
    found: PolicyResult
    files: list
    was_shown: bool
    evidence: bytes


def _edited(action: Action, answer: Answer) -> Edited | None:
    """Evaluate an edit; None when it equals what was shown. Problem 422, 503."""
    was, arguments = content(action), answer.arguments
    calls.check(was["tool"], arguments, was["cwd"], action.workspace, action.mode)
    call = was["tool"], arguments, was["cwd"], action.workspace
    shown = was.get("files", [])
    if sha256(calls.canonical(*call, shown)) == answer.digest:
        return None
    try:
        found = judge(*call, action.team_id, agent=action.agent.name)
    except PolicyUnavailable as error:
        raise unavailable(f"The policy could not be evaluated ({error}), so the edit was not saved.") from None
    if found.tier == Tier.FORBIDDEN:
        raise invalid("The policy forbids this version. Nothing was changed.", code="forbidden", reasons=found.reasons)
    bound = bound_files.bind(*call, found)
    bound = mcp_tools.stays_bound(current(action), bound)
    canonical = calls.canonical(*call, bound.canonical)
    evidence = pack(evidence_of(action, Revision(canonical=canonical, commands=found.commands)))
    was_shown = not bound_files.differing(shown, bound)
    return Edited(canonical, found, bound.files, was_shown, evidence)


def _edit(action: Action, still_open: Q, caller, answer: Answer, edited: Edited) -> bool:
    """Make the next revision: approved at once if this person alone may approve its tier, else pending without votes.

    So a person whose edit makes an action critical is never its only approver. It also stays pending if a script
    changed since the card was shown, or if its approval takes a passkey, which the next card asks for.
    """
    was, found = current(action), edited.found
    fields = {
        "revision": action.revision + 1,
        "digest": sha256(edited.canonical),
        "tier": found.tier,
        "undo": found.undo,
        "title": found.title,
        "rule": found.rule,
        "policy": found.policy,
        "policy_file": found.policy_file,
        **found.quorum_fields,
        "envelope": None,  # a person decides, and the runner derives it from what the card said
    }
    data = {"was": was.digest, "revision": was.number + 1}
    if not move(action, Status.PENDING, verb="action.edited", by=caller.actor, when=still_open, data=data, **fields):
        return False
    revision = add_revision(action, action.revision, edited.canonical, found, caller.actor, files=edited.files)
    is_enough = quorum.is_met(action.team_id, [caller.user.pk], found.takes)
    alone = is_enough and edited.was_shown and not requirement.is_required(action, caller)
    _record_answer(action, caller, answer, revision=was, final=alone, evidence=edited.evidence)
    if not alone:
        record(action, "action.waiting", caller.actor, {"undo": action.undo, "quorum": action.quorum})
        way_back_search.request(action, revision)
        return True
    mine = Q(status=Status.PENDING, digest=revision.digest)
    mcp_tools.accept(action)
    return approve(action, verb="action.approved", by=caller.actor, when=mine, data={"edited": True})

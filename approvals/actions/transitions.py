"""Change actions: always by a conditional update, with the event in the same transaction."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals.evaluation.calls import BROKER, sha256
from approvals.evaluation.own_verbs import HELD_OPEN, OWN_VERBS
from approvals.models import Action, ActionEndCode, BoundFile, Decision, Revision, Status, Tier
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.database.retries import retried
from dashboard.models import Actor, Event, Team
from dashboard.problems import Problem, conflict
from workspaces import lifecycle, operations
from workspaces.services import rehearsals

CARRIED_OUT_BY = "broker"
UNUSED = (Status.DENIED, Status.EXPIRED, Status.CANCELLED)  # ends of an action that did not run
# What changes of an action may touch; the rest keeps the objects that were loaded for it.
CHANGING = [
    field.name for field in Action._meta.concrete_fields if field.name not in ("id", "team", "agent", "workspace")
]
SNAPSHOT_TIERS = (Tier.MEDIUM, Tier.HIGH, Tier.CRITICAL)
LIVE = Q(status=Status.PENDING) | Q(status=Status.APPROVED, consumed_at=None)  # still undecided, or not used yet


@retried
def move(action: Action, to: str, *, verb: str, by: Actor, when: Q, data=None, **fields) -> bool:
    """Move the action to a status if it still matches `when`; False if it does not, because another change was first.

    `verb` and `data` become its event; `fields` are updated with the status. `action` is reloaded on success.
    """
    with transaction.atomic(savepoint=False):
        Team.objects.take_turn(action.team_id)
        if not Action.objects.filter(when, pk=action.pk).update(status=to, **fields):
            return False
        action.refresh_from_db(fields=CHANGING)
        if action.rehearsal_id and _forgets_rehearsal(action, to, fields):
            rehearsals.drop(action.rehearsal)
            action.rehearsal = None
        record(action, verb, by, data)
    return True


def _forgets_rehearsal(action: Action, to: str, fields: dict) -> bool:
    """Return whether nobody can apply the rehearsal from now on: another call, no approval, or one that runs it."""
    return "digest" in fields or to in UNUSED or (to == Status.APPROVED and not applied_tree(action))


def applied_tree(action: Action) -> str:
    """Return the tree that the last approval of the current revision applies instead of running it; "" if it runs.

    The approvals that counted with it agree (approvals.actions.decisions).
    """
    given = action.decisions.filter(verdict="approve", revision__number=action.revision).order_by("-at")
    return given.values_list("applied_tree", flat=True).first() or ""


def record(action: Action, verb: str, by: Actor, data=None):
    """Record an event of an action, without the call's arguments."""
    record_each(action, [(verb, by, data)])


def record_each(action: Action, entries: list[tuple]):
    """Record an event of an action for each (verb, actor, data), as `record` does."""
    about = {
        "number": action.number,
        "title": action.title,
        "tier": action.tier,
        "digest": action.digest,
        "agent": str(action.agent_id),
    }
    told = [(verb, by, about | (data or {})) for verb, by, data in entries]
    Event.objects.record_each(action.team_id, told, subject=action, workspace=action.workspace_id)


def approve(action: Action, *, verb: str, by: Actor, when: Q, data=None, tree: str = "", **fields) -> bool:
    """Approve the current digest; if Handrail carries it out, also submit its operation. False if it has moved.

    `tree`: the tree that a rehearsal left, if the approval applies it instead of a run.
    """
    now = clock.now()
    with transaction.atomic(savepoint=False):
        if not move(
            action,
            Status.APPROVED,
            verb=verb,
            by=by,
            when=when,
            data=data,
            decided_at=now,
            consume_by=consume_by(now),
            **fields,
        ):
            return False
        carry_out(action, tree)
    return True


def consume_by(decided_at) -> datetime:
    """Return until when an approval can be used."""
    return decided_at + timedelta(seconds=settings.HANDRAIL_CONSUME_SECONDS)


def needs_snapshot(tier: str, tool: str, workspace) -> bool:
    """Return whether a snapshot of the workspace is taken before a call of this tier."""
    changes_nothing = tool in own_questions.TOOLS or tool in HELD_OPEN
    return workspace is not None and tier in SNAPSHOT_TIERS and not changes_nothing


def actor_of(action: Action) -> Actor:
    """Return the actor in whose name an approved action is carried out: its agent, with who approved it."""
    counted = Q(verdict="approve", revision__number=action.revision) | Q(final=True)
    people = action.decisions.filter(counted).order_by("at").values_list("user__username", flat=True)
    return _agent_allowed_by(action, ", ".join(dict.fromkeys(people)) or policy_label(action))


def actor_without_people(action: Action) -> Actor:
    """Return the same for an action that no person has decided."""
    return _agent_allowed_by(action, policy_label(action))


def _agent_allowed_by(action: Action, approved_by: str) -> Actor:
    return replace(Actor.agent(action.agent), approval=str(action.pk), approved_by=approved_by)


def name_of(pk: str) -> dict | None:
    """Return {id, number} of an action as manifests name it; None if it is gone."""
    number = Action.objects.filter(pk=pk).values_list("number", flat=True).first()
    return {"id": pk, "number": f"A-{number}"} if number else None


RUNS_AT_MOST = timedelta(hours=1)  # a call whose agent says no more; after that it counts as over


def agents_running(workspaces, now) -> set[tuple[UUID, str]]:
    """Return (workspace id, agent id as text) of the agents that run a call in one of the workspaces now."""
    since = now - RUNS_AT_MOST
    running = Action.objects.filter(workspace__in=workspaces, status=Status.RUNNING, consumed_at__gt=since)
    return {(place, str(agent)) for place, agent in running.values_list("workspace", "agent")}


def carry_out(action: Action, tree: str = ""):
    """Submit an approved action to the runner if Handrail carries it out; `tree` as in `approve`.

    That is in broker mode, and where a person approved what a rehearsal left instead of a run. Problem 409 if its
    workspace cannot be used now.
    """
    if action.mode != BROKER and not tree:
        return
    by = actor_of(action)
    own_verb = action.tool in OWN_VERBS
    if not own_verb:
        lifecycle.resume_for_use(action.workspace, by=by)
    operation = operations.submit(
        "workspace_action" if own_verb else CARRIED_OUT_BY,
        workspace=action.workspace,
        args={"action": str(action.pk), "digest": action.digest},
        by=by,
        dedupe=f"action:{action.pk}:{action.revision}",
    )
    Action.objects.filter(pk=action.pk).update(operation=operation)
    action.operation = operation


def withdraw(action: Action, by: Actor, note: str, *, code: ActionEndCode, when: Q = LIVE) -> bool:
    """Cancel the action if it still matches `when`; False if it does not. `note` is shown to its agent and people."""
    return move(
        action,
        Status.CANCELLED,
        verb="action.cancelled",
        by=by,
        when=when,
        data={"why": code.value},
        ended_at=clock.now(),
        end_code=code,
        result={"by": by.label, "note": note},
    )


def add_revision(
    action: Action, number: int, canonical: bytes, found, by: Actor, *, files: list, changed: list[str] = ()
) -> Revision:
    """Store a revision with the verdict `found` on it (a PolicyResult, or the revision before).

    `files` are those of approvals.actions.bound_files.Bound; `changed` names those that differ from what was approved.
    """
    revision = Revision.objects.create(
        action=action,
        number=number,
        canonical=canonical,
        digest=sha256(canonical),
        tier=found.tier,
        undo=found.undo,
        reasons=found.reasons,
        changed=list(changed),
        rule=found.rule,
        commands=found.commands,
        by=by.as_json,
        created_at=max(clock.now(), action.created_at),  # the clock may have been set back; Search relies on it
    )
    BoundFile.objects.bulk_create(BoundFile(revision=revision, number=n, **file) for n, file in enumerate(files, 1))
    return revision


def stamp(moment) -> str | None:
    """Format as RFC 3339 in UTC, with milliseconds; None for None."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def final_decision(action: Action) -> Decision | None:
    return next((decision for decision in action.decisions.all() if decision.final), None)


def winner(action: Action) -> dict | None:
    """Return what settled the action, {verdict, by, at}; for a pending one its last edit; None if there is none."""
    decision = final_decision(action)
    if decision is None and action.status == Status.PENDING:
        decision = action.decisions.filter(verdict="edit").select_related("user").order_by("-at").first()
    if decision:
        return {"verdict": decision.verdict, "by": decision.user.get_username(), "at": stamp(decision.at)}
    if action.status in (Status.EXPIRED, Status.CANCELLED):
        by = (action.result or {}).get("by")
        return {"verdict": str(action.status), "by": by, "at": stamp(action.ended_at)}
    if action.decided_at:
        verdict = "deny" if action.status == Status.DENIED else "approve"
        return {"verdict": verdict, "by": policy_label(action), "at": stamp(action.decided_at)}
    return None


def policy_label(action: Action) -> str:
    """Return which policy or grant allowed or denied an action without asking a person."""
    if action.grant_id:
        return f"a grant of {action.grant.by.get_username()}"
    return f"policy {action.policy.number}" if action.policy_id else "policy"


def answer_conflict(action: Action, digest: str | None = None) -> Problem:
    """Return the Problem 409 for an answer that came too late or to another digest: with winner, status and digest."""
    won = winner(action)
    extra = {"winner": won, "action_status": action.status, "digest": action.digest}
    if action.status == Status.EXPIRED and not action.decided_at:
        return conflict("This expired before anyone answered. It did not run.", code="expired", **extra)
    if action.status == Status.CANCELLED:
        return conflict(f"This was cancelled by {won['by'] or 'its agent'}.", code="cancelled", **extra)
    if action.status == Status.PENDING:
        changed = f"{won['by']} changed this" if won else "This changed"
        detail = f"{changed} since you loaded it. Your answer was not used."
        return conflict(detail, code="digest_mismatch", **extra)
    said = own_questions.word_of(action.tool, won["verdict"]) if won else "settled"
    return conflict(
        f"{(won or {}).get('by') or 'Someone'} {said} this. Your answer was not used.", code="already_decided", **extra
    )

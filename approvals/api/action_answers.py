"""Response schemas of actions, decisions and evidence, and the functions that fill them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from ninja import Schema
from pydantic import Field

from approvals.actions import compensations, own_agents, rehearsals, rendered_card
from approvals.actions.asked_snapshots.state import asked_files
from approvals.actions.transitions import policy_label
from approvals.api.schemas import AskedFilesOut, RehearsalOut
from approvals.api.talk import AgentMessageOut
from approvals.evaluation.judge import content, current, was_edited
from approvals.models import Action, Decision, Tier
from approvals.questions import own_questions


class DecisionOut(Schema):
    verdict: str = Field(description="approve, deny or edit")
    by: str
    comment: str
    do_first: bool = Field(description="whether a denial's comment says what to do before the call is made again")
    edited: bool = Field(description="whether what is approved differs from what was asked")
    decided_at: datetime


class AnswerOut(Schema):
    """One person's answer to one revision."""

    by: str
    verdict: str = Field(description="approve, deny or edit")
    at: datetime
    revision: int
    final: bool = Field(description="whether it decided the action, which the first of two people's does not")
    rendered_digest: str | None = Field(
        description="SHA-256 of what the person's page said that it showed (docs/attested-card.md); null without that"
    )


class CompensationOut(Schema):
    """The way back from what an action does outside."""

    title: str = Field(description="what it would do, as the end of a sentence: puts main back to 41c2e9a if …")
    call: dict[str, Any] = Field(description="{tool, arguments}; null in them is what the action itself brings about")
    state: str = Field(description="found: before the action is over; ready: it can be asked for")
    action: UUID | None = Field(description="the newest action that was asked to take it back")
    found_at: datetime | None


class Row(Schema):
    """An action without its arguments, as in lists."""

    id: UUID
    number: int
    title: str
    status: str
    tier: str
    undo: str = Field(
        description="yes: by a snapshot, partly, outside: by `compensation`, unknown, no, or gone: no snapshot is left"
    )
    compensation: CompensationOut | None = Field(
        description="the call that takes back outside what this did or would do there; null where there is none"
    )
    no_compensation_because: str | None = Field(
        description="why there is no way back outside, or what of it is missing; null while nobody looked"
    )
    compensates: UUID | None = Field(description="the action that this one takes back")
    reasons: list[str]
    rule: str
    digest: str = Field(description="SHA-256 of the RFC 8785 bytes of {arguments, cwd, files?, tool, workspace}")
    revision: int
    mode: str
    tool: str
    workspace: str | None
    agent: str
    votes: int
    quorum: int
    quorum_role: str = Field(description="of one of those who approve at least: lead, admin, or empty for any")
    quorum_groups: list[str] = Field(description="groups of people, of each of which one approves")
    escalates_at: datetime | None = Field(description="when it is passed on if nobody has decided it")
    escalated_to: str | None = Field(description="the role or group to which it was passed on")
    asked_of: str | None = Field(description="user name of the person who was asked by name to decide")
    created_at: datetime
    expires_at: datetime
    consume_by: datetime | None
    decision: DecisionOut | None
    result: dict[str, Any] | None
    envelope: dict[str, Any] | None  # of the policy's verdict: what the kernel holds the call to
    blocked: list[dict[str, str]]  # what that refused: {kind, what}
    snapshot_before: int | None
    url: str = Field(description="the card, for people")


class QuestionOut(Schema):
    id: UUID
    text: str
    by: str
    at: datetime


class Whole(Row):
    question: QuestionOut | None = Field(description="a person's, unanswered: answer it at …/messages; it still waits")
    arguments: dict[str, Any] = Field(description="those that count: edited or not")
    answers: dict[str, Any] | None = Field(
        description="of a question of the agent, once a person answered: {text, id or name of each: answer}; else null"
    )
    cwd: str | None
    files: list[dict[str, str]] = Field(description="{kind, path, sha256} of the scripts and commits that it runs")
    commands: list[dict[str, Any]]
    rehearsal: RehearsalOut | None
    files_when_asked: AskedFilesOut | None = Field(
        description="the snapshot of the files as they were when it began to need approval; null where none is taken"
    )
    decisions: list[AnswerOut] = Field(description="of people, oldest first; empty where the policy or a grant decided")
    reasoning: str
    session: str
    call_id: str
    messages: list[AgentMessageOut] = Field(
        [], description="people's, to the agent that asks: until it acknowledges them at /messages/{id}/read"
    )
    others_at_work: list[str] = Field([], description="when a call is submitted: other agents at work on these files")


class Rows(Schema):
    actions: list[Row]
    cursor: str | None


def row(action: Action) -> dict:
    revision = current(action)
    return {
        "id": action.pk,
        "number": action.number,
        "title": action.title,
        "status": action.status,
        "tier": action.tier,
        "undo": action.undo_now,
        "compensation": compensations.as_json(action),
        "no_compensation_because": compensations.missing(action),
        "compensates": action.compensates_id,
        "reasons": revision.all_reasons,
        "rule": revision.rule,
        "digest": action.digest,
        "revision": action.revision,
        "mode": action.mode,
        "tool": action.tool,
        "workspace": action.workspace.key if action.workspace else None,
        "agent": str(action.agent),
        "votes": len(_votes(action, revision)),
        "quorum": action.quorum,
        "quorum_role": action.quorum_role,
        "quorum_groups": action.quorum_groups,
        "escalates_at": action.escalate_at,
        "escalated_to": (action.escalates_to["role"] or action.escalates_to["group"]) if action.escalated_at else None,
        "asked_of": action.asked_of.get_username() if action.asked_of_id else None,
        "created_at": action.created_at,
        "expires_at": action.expires_at,
        "consume_by": action.consume_by,
        "decision": decision_of(action),
        "result": action.result,
        "envelope": action.envelope,
        "blocked": action.blocked,
        "snapshot_before": action.snapshot_before.number if action.snapshot_before else None,
        "url": f"{settings.HANDRAIL_PUBLIC_URL}/actions/{action.pk}/",
    }


def _votes(action: Action, revision) -> list[Decision]:
    given = [d for d in action.decisions.all() if d.verdict == "approve" and d.revision_id == revision.pk]
    return [d for d in given if d.final or not own_agents.needs_another(action, d.user_id)]


def _question(action: Action) -> dict | None:
    asked = action.open_question
    return asked and {"id": asked.pk, "text": asked.text, "by": asked.user.get_username(), "at": asked.at}


def whole(action: Action) -> dict:
    call = content(action)
    return row(action) | {
        "arguments": call["arguments"],
        "answers": own_questions.answers_in(call["tool"], call["arguments"]),
        "cwd": call["cwd"],
        "files": call.get("files", []),
        "commands": current(action).commands,
        "question": _question(action),
        "rehearsal": rehearsals.as_json(action),
        "files_when_asked": asked.as_json() if (asked := asked_files(action)) else None,
        "decisions": _decisions(action),
        "reasoning": action.reasoning,
        "session": action.session,
        "call_id": action.call_id,
    }


def _decisions(action: Action) -> list[dict]:
    numbers = {revision.pk: revision.number for revision in action.revisions.all()}
    return [
        {
            "by": given.user.get_username(),
            "verdict": given.verdict,
            "at": given.at,
            "revision": numbers[given.revision_id],
            "final": given.final,
            "rendered_digest": rendered_card.digest_of(given.assertion),
        }
        for given in sorted(action.decisions.all(), key=lambda each: each.at)
    ]


def decision_of(action: Action) -> dict | None:
    """Return the final decision of a person, a grant or the policy; None while the action is undecided."""
    if action.decided_at is None:
        return None
    final = next((d for d in action.decisions.all() if d.final), None)
    edited = was_edited(action)
    if final:
        by, verdict, comment = final.user.get_username(), final.verdict, final.comment
    else:
        by, verdict, comment = policy_label(action), "deny" if action.tier == Tier.FORBIDDEN else "approve", ""
    said = {"comment": comment, "do_first": bool(final and final.do_first)}
    return {"verdict": verdict, "by": by, **said, "edited": edited, "decided_at": action.decided_at}


class FindingOut(Schema):
    """The evidence for one sub-command."""

    line: int
    text: str
    says: list[str]
    names: list[dict[str, str]] = Field(description="{path}, and {path_b64} where it is not UTF-8")
    commits: list[dict[str, str]]
    files: list[dict[str, Any]]
    more: int


class EvidenceOut(Schema):
    digest: str
    says: str
    diff: dict[str, Any] | None
    diffs: list[dict[str, Any]]
    findings: list[FindingOut]

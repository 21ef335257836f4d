"""Values for an action's card, made from the stored bytes: the call, why it needs approval, and its evidence."""

import re
from datetime import timedelta
from functools import cached_property

from django.conf import settings
from django.db.models import Prefetch
from django.utils.translation import gettext

from approvals.actions import own_agents, quorum, secret_reads, solo
from approvals.actions.approved_envelope import envelope_of
from approvals.actions.decisions import may_approve_scope
from approvals.evaluation.calls import GATE, parsed, root_of
from approvals.evaluation.judge import can_be_held, was_edited
from approvals.models import Action, Decision, Delivery, SessionPrompt, Status
from approvals.notify import receipts
from approvals.pages import earlier
from approvals.pages.alike_groups import MAX_SHOWN
from approvals.pages.arguments_part import ArgumentsPart
from approvals.pages.attention_part import AttentionPart
from approvals.pages.call_parts import Part, parts_of
from approvals.pages.envelope_words import in_words
from approvals.pages.evidence_part import EvidencePart
from approvals.pages.json_text import fields_line, pretty
from approvals.pages.own_part import OwnPart
from approvals.pages.own_titles import title_in_own_language
from approvals.pages.policy.card_part import RulePart
from approvals.pages.push_part import PushPart
from approvals.pages.rehearsal_part import RehearsalPart
from approvals.pages.row_part import RowPart
from approvals.pages.severity import Severity, lasting_part, severity_of, undo_of_card
from approvals.pages.waiter_part import WaiterPart
from approvals.pages.way_back_part import WayBackPart
from approvals.pages.workspace_part import WorkspacePart
from approvals.policy.people import Takes
from approvals.sessions import prompts
from dashboard import json_text
from dashboard.problems import Problem
from dashboard.text import quorum_words
from dashboard.text.labels import ACTION_STATES, TIERS
from dashboard.text.visible_text import fold, hidden_note
from workspaces.lifecycle import agents_at_work
from workspaces.models import AgentsTogether
from workspaces.provisioning import isolation

PICKUP_TIME = timedelta(seconds=10)  # within which a waiting agent has consumed its approval
MAX_LINE = 240  # characters of a call in a list row


def for_rows(actions):
    """Load the actions with all that a Card reads, in a constant number of queries."""
    return actions.select_related(
        "team",
        "agent__owner",
        "workspace__team",
        "workspace__environment",
        "workspace__owner",
        "grant__by",
        "rehearsal",
        "open_question",
        "asked_of",
        "way_back__taken_by",
        "compensates",
    ).prefetch_related("revisions", Prefetch("decisions", Decision.objects.select_related("user")))


def cards_of(actions, caller, now) -> "list[Card]":
    return [Card(action, caller, now) for action in actions]


Parts = (ArgumentsPart, AttentionPart, EvidencePart, OwnPart, PushPart, RowPart, RulePart)
Parts += (WaiterPart, WayBackPart, WorkspacePart)


class Card(*Parts):
    """An action as a person sees it. `action` was loaded with `for_rows`; further queries are cached."""

    def __init__(self, action: Action, caller, now):
        self.action, self.caller, self.now = action, caller, now

    @cached_property
    def revisions(self):
        return sorted(self.action.revisions.all(), key=lambda revision: revision.number)

    @property
    def revision(self):
        return self.revisions[-1]

    @property
    def edited(self) -> bool:
        return was_edited(self.action) and not self.own_label

    @property
    def reasons(self) -> list[str]:
        """The verdict's reasons; in the past tense once the action is no longer pending."""
        said = self.revision.all_reasons
        return said if self.is_open else [re.sub("^Needs approval", "Asked for approval", text) for text in said]

    @property
    def editor(self) -> str:
        """The name of the person who edited the call last; "" if nobody did."""
        edits = [revision.by for revision in self.revisions if revision.by.get("type") == "person"]
        return edits[-1]["label"] if edits else ""

    @cached_property
    def call(self) -> dict:
        """The canonical bytes, parsed: {tool, arguments, cwd, workspace}, and {files} if it binds any."""
        return parsed(self.revision.canonical)

    @cached_property
    def first_call(self) -> dict:
        return parsed(self.revisions[0].canonical)

    @property
    def arguments(self) -> dict:
        return self.call["arguments"]

    @property
    def arguments_json(self) -> str:
        return pretty(self.arguments)

    @property
    def raw(self) -> str:
        return bytes(self.revision.canonical).decode()

    @property
    def is_short(self) -> bool:
        """Whether a group of alike actions shows the whole call, so that it can be answered there."""
        shown = self.command or self.arguments_json
        return len(self.revision.canonical) <= MAX_SHOWN and not fold(shown).middle

    @property
    def cwd(self) -> str:
        return self.call.get("cwd") or ""

    @property
    def unusual_cwd(self) -> str:
        """The folder in which the call would run; "" if it is the root of its workspace, as of most calls."""
        workspace = self.action.workspace
        return "" if workspace and self.cwd == root_of(workspace) else self.cwd

    @property
    def command(self) -> str | None:
        """The shell command of a Bash call; None for other calls."""
        command = self.arguments.get("command")
        return command if self.action.tool == "Bash" and isinstance(command, str) else None

    @property
    def hidden_note(self) -> str:
        """A sentence if the call has characters that a form would not show; else ""."""
        return hidden_note(self.raw_arguments)

    @cached_property
    def parts(self) -> list[Part]:
        """The command cut where its sub-commands begin; [] if it is only one, or cannot be cut so."""
        return parts_of(self.command or "", self.revision.commands)

    @property
    def steps(self) -> list[str]:
        """The sub-commands, numbered as in the policy's reasons; [] if the command itself shows the numbers."""
        steps = [str(item.get("text", "")) for item in self.revision.commands]
        return steps if len(steps) > 1 and not self.parts else []

    @property
    def line(self) -> str:
        """A short text of the call for list rows, cut to MAX_LINE characters."""
        named = (self.arguments.get(name) for name in ("file_path", "path", "url", "pattern", "query"))
        text = (
            self.own_line
            or self.command
            or next((text for text in named if isinstance(text, str)), None)
            or fields_line(self.arguments)
        )
        return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"

    @property
    def raw_arguments(self) -> str:
        return json_text.dumps(self.arguments, ensure_ascii=False)

    @cached_property
    def decisions(self):
        return sorted(self.action.decisions.all(), key=lambda decision: decision.at)

    @property
    def final(self):
        return next((decision for decision in self.decisions if decision.final), None)

    @property
    def votes(self):
        """The approvals that count so far, oldest first."""
        mine = self.revision.pk
        given = [d for d in self.decisions if not d.final and d.verdict == "approve" and d.revision_id == mine]
        return [vote for vote in given if not own_agents.needs_another(self.action, vote.user_id)]

    @property
    def has_voted(self) -> bool:
        return any(vote.user_id == self.caller.user.pk for vote in self.votes)

    @property
    def needs_another(self) -> bool:
        """Whether somebody else has to approve it, as the agent that asked is this person's own."""
        return own_agents.needs_another(self.action, self.caller.user.pk)

    @property
    def undo_part(self) -> str:
        return lasting_part(self.revision)

    @property
    def is_late(self) -> bool:
        return self.action.status == Status.PENDING and self.action.expires_at <= self.now

    @property
    def never_picked_up(self) -> bool:
        """Whether a person approved it and its agent has not consumed the approval."""
        action = self.action
        if not self.final or action.mode != GATE or not action.decided_at:
            return False
        waits = action.status == Status.APPROVED and action.decided_at <= self.now - PICKUP_TIME
        return waits or action.status == Status.EXPIRED

    @property
    def is_open(self) -> bool:
        return self.action.status == Status.PENDING and not self.is_late

    @property
    def may_decide(self) -> bool:
        return self.may_answer and not self.has_voted and not self.needs_another

    @property
    def may_answer(self) -> bool:
        """Whether this person may answer: who has approved, or owns the agent, may still deny what is open."""
        return self.is_open and self.caller.can("decide", self.action.team_id)

    @property
    def may_comment(self) -> bool:
        return self.caller.can("decide", self.action.team_id)

    @cached_property
    def readable_secrets(self) -> list[str]:
        """The masked files that this person can let the command read."""
        may = self.may_comment and may_approve_scope(self.action, self.caller) and not self.needs_another
        return secret_reads.offers(self.action) if may else []

    @property
    def can_be_held(self) -> bool:
        return can_be_held(self.action.mode, self.action.tool, self.action.workspace)

    @cached_property
    def envelope(self) -> list[tuple[str, str]]:
        """What the kernel will hold its program to, or held it to: [(label, what)]; [] if nothing."""
        try:
            envelope = envelope_of(self.action)
        except Problem as problem:
            return [(gettext("It would not run"), problem.detail)]
        return in_words(envelope) if envelope else []

    @cached_property
    def rehearsal_part(self) -> RehearsalPart:
        return RehearsalPart(self.action, self.is_open)

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """The notifications about it that people got, or did not."""
        return receipts.of_action(self.action)

    @property
    def solo_target(self) -> str:
        """What the team's only approver types to approve this alone; "" if that is not offered."""
        offered = self.may_answer and solo.is_offered(self.action, self.caller)
        return solo.target_of(self.action) if offered else ""

    @property
    def takes_two_taps(self) -> bool:
        return self.action.undo != "yes" or not self.action.takes_one

    @cached_property
    def waits_for(self) -> str:
        """The approvals that are missing, in words."""
        given = [vote.user_id for vote in self.votes]
        left = quorum.missing(self.action.team_id, given, self.action.takes) or Takes()
        return quorum_words.still_needs(left.people, left.role, left.groups)

    @property
    def takes(self) -> str:
        """How many people approve it, if not any one of them, in words; else ""."""
        takes = self.action.takes
        return "" if takes.takes_one else quorum_words.takes(takes.people, takes.role, takes.groups)

    @property
    def why_not(self) -> str:
        """Why this person does not decide the open card."""
        if self.has_voted:
            return gettext("You approved this. It needs %(waits_for)s.") % {"waits_for": self.waits_for}
        if self.may_answer and self.needs_another:
            return gettext("This is your own agent's: somebody else approves it.")
        return gettext("Only a reviewer of %(name)s can decide this.") % {"name": self.action.team.name}

    @property
    def deny_label(self) -> str:
        """The words of the only button of a person who may deny and not approve."""
        return gettext("Change to deny…") if self.has_voted else gettext("Deny…")

    @property
    def note(self) -> str:
        """The result's note, if there is one; else ""."""
        return (self.action.result or {}).get("note") or ""

    @property
    def is_note_shown(self) -> bool:
        """Whether the sentence about the status already includes the note."""
        return bool(self.action.end_code) or self.action.status == Status.UNCERTAIN

    @property
    def ended(self):
        return self.action.ended_at

    @cached_property
    def _own_title(self) -> str | None:
        return title_in_own_language(self.action, lambda: self.first_call["arguments"])

    @property
    def title(self) -> str:
        return self.action.title if self._own_title is None else self._own_title

    @property
    def title_language(self) -> str:
        """The language of `title` if it is not the reader's; else ""."""
        return settings.LANGUAGE_CODE if self._own_title is None else ""

    @property
    def step_says(self) -> str:
        if self.takes:
            words = gettext("%(title)s. %(tier)s: %(takes)s.")
            return words % {"title": self.title, "tier": TIERS[self.action.tier][0], "takes": self.takes}
        return f"{self.title}."

    @property
    def state(self) -> str:
        return ACTION_STATES[self.state_name][0]

    @property
    def state_name(self) -> str:
        return "expired" if self.is_late else self.own_state or self.action.status

    @property
    def tone(self) -> str:
        """The color name of the card's rail: by what is at stake while it is pending, then by status."""
        open_tone = "accent" if self.own_label else self.severity.tone
        return open_tone if self.is_open else ACTION_STATES[self.state_name][1]

    @cached_property
    def severity(self) -> Severity:
        return severity_of(self.action, self.revision, self.arguments)

    @property
    def undo_shown(self) -> str:
        return undo_of_card(self.action, self.revision, self.cwd)

    @cached_property
    def approved_before(self) -> dict:
        return {} if self.own_label else earlier.approved_before(self.action)

    @cached_property
    def prompt(self) -> SessionPrompt | None:
        return prompts.before(self.action)

    @cached_property
    def calls_before(self) -> list[Action]:
        return earlier.calls_before(self.action)

    @property
    def isolation(self) -> str:
        workspace = self.action.workspace
        return isolation.IN_WORDS[isolation.of(workspace)] if workspace else ""

    @cached_property
    def others_at_work(self) -> list[str]:
        """Other agents that work on the same files now, where the environment wants that shown."""
        workspace, is_to_run = self.action.workspace, self.is_open or self.is_unused
        if not workspace or not is_to_run or workspace.environment.agents_together == AgentsTogether.ALLOW:
            return []
        return [agent.name for agent in agents_at_work.others(workspace, self.action.agent, self.now)]

    @property
    def is_unused(self) -> bool:
        return self.action.status == Status.APPROVED and self.action.consumed_at is None

    @property
    def is_locked(self) -> bool:
        """Whether its agent cannot run it now, since another one is at work where only one may."""
        one = self.others_at_work and self.action.workspace.environment.agents_together == AgentsTogether.ONE
        return bool(one) and not self.action.is_carried_out

    @property
    def version(self) -> str:
        """A version of what the card shows; a page with another version is out of date."""
        return f"{self.action.status}.{self.action.revision}.{len(self.votes)}.{int(self.is_late)}"

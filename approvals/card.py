"""What a card shows, made by the server from the stored bytes: the call, why it waits, what it would do."""

import json
from functools import cached_property

from django.db.models import Prefetch
from django.urls import reverse

from approvals import grants
from approvals.calls import parsed
from approvals.evidence import Evidence, evidence_of, is_quick
from approvals.models import Action, Decision, Status
from dashboard.templatetags.handrail import ACTION_STATES, TIERS
from dashboard.visible import hidden_note
from workspaces import isolation, terminals
from workspaces.models import Command

# Arguments in which an agent explains itself; they stand apart from what would run.
SPOKEN = ("description",)
# Arguments whose every byte is in the difference, where there is one.
TOLD_BY_DIFF = ("content", "old_string", "new_string")
SHORT = 120  # characters that fit beside a name
LINE = 240  # characters of a call in a row


def for_rows(actions):
    """With all that a Card reads, in a constant number of queries."""
    return actions.select_related(
        "team", "agent__owner", "workspace__team", "workspace__environment", "grant__by"
    ).prefetch_related("revisions", Prefetch("decisions", Decision.objects.select_related("user")))


def cards_of(actions, caller, now) -> "list[Card]":
    return [Card(action, caller, now) for action in actions]


class Card:
    """An action as a person sees it. `action` comes with team, agent, workspace; queries are made once."""

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
        return len(self.revisions) > 1

    @cached_property
    def call(self) -> dict:
        """The canonical bytes, parsed: {tool, arguments, cwd, workspace}."""
        return parsed(self.revision.canonical)

    @cached_property
    def asked_first(self) -> dict:
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
    def cwd(self) -> str:
        return self.call.get("cwd") or ""

    @property
    def command(self) -> str | None:
        """The shell command, when that is what the call is."""
        command = self.arguments.get("command")
        return command if self.action.tool == "Bash" and isinstance(command, str) else None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Arguments that are texts of their own: (name, text)."""
        return [(n, v) for n, v in self._others() if isinstance(v, str) and (len(v) > SHORT or "\n" in v)]

    @property
    def is_told_by_diff(self) -> bool:
        """The difference shows every byte of the change, so its texts need not stand there a second time."""
        if self.evidence_comes_later:
            return False
        diff = self.evidence.diff
        return diff is not None and not diff.cut and not diff.binary

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The other arguments: (name, as JSON where it is not a text)."""
        return [
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in self._others()
            if not (isinstance(value, str) and (len(value) > SHORT or "\n" in value))
        ]

    def _others(self):
        left_out = (*SPOKEN, "command") if self.command is not None else TOLD_BY_DIFF if self.is_told_by_diff else ()
        return [(name, value) for name, value in self.arguments.items() if name not in left_out]

    @property
    def hidden_note(self) -> str:
        """A sentence when the call holds characters that a form would not show."""
        return hidden_note(self.raw_arguments)

    @property
    def steps(self) -> list[str]:
        """The sub-commands, counted as the policy counts lines, where the command does not show them like that."""
        steps = [str(item.get("text", "")) for item in self.revision.commands]
        own = [line.strip() for line in (self.command or "").split("\n") if line.strip()]
        return steps if len(steps) > 1 and steps != own else []

    @property
    def words(self) -> list[str]:
        """What the agent says about it."""
        spoken = [self.action.reasoning, *(self.arguments.get(name) for name in SPOKEN if self.command is not None)]
        return [text for text in spoken if isinstance(text, str) and text]

    @property
    def line(self) -> str:
        """The call on one line, cut: for rows."""
        named = (self.arguments.get(name) for name in ("file_path", "path", "url", "pattern", "query"))
        text = self.command or next((text for text in named if isinstance(text, str)), None) or self.raw_arguments
        return text if len(text) <= LINE else f"{text[:LINE]}…"

    @property
    def raw_arguments(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)

    @cached_property
    def decisions(self):
        return sorted(self.action.decisions.all(), key=lambda decision: decision.at)

    @property
    def final(self):
        return next((decision for decision in self.decisions if decision.final), None)

    @property
    def votes(self):
        mine = self.revision.pk
        return [d for d in self.decisions if not d.final and d.verdict == "approve" and d.revision_id == mine]

    @property
    def has_voted(self) -> bool:
        return any(vote.user_id == self.caller.user.pk for vote in self.votes)

    @property
    def is_late(self) -> bool:
        return self.action.status == Status.PENDING and self.action.expires_at <= self.now

    @property
    def is_open(self) -> bool:
        return self.action.status == Status.PENDING and not self.is_late

    @property
    def may_decide(self) -> bool:
        return self.may_answer and not self.has_voted

    @property
    def may_answer(self) -> bool:
        """Somebody who approved may still say no while it waits for others."""
        return self.is_open and self.caller.can("decide", self.action.team_id)

    @cached_property
    def grant_offers(self) -> dict[str, str]:
        """What may be allowed for a while from here: {name: words}."""
        return grants.offers(self.action) if self.may_decide else {}

    @property
    def takes_two_taps(self) -> bool:
        return self.action.undo != "yes" or self.action.quorum > 1

    @property
    def still_needed(self) -> int:
        return max(0, self.action.quorum - len(self.votes))

    @property
    def waits_for(self) -> str:
        return "one more person" if self.still_needed == 1 else f"{self.still_needed} more people"

    @property
    def why_not(self) -> str:
        """For an open card whose looker does not decide it: why."""
        if self.has_voted:
            return f"You approved this. It waits for {self.waits_for}."
        return f"A reviewer of {self.action.team.name} decides this."

    @property
    def note(self) -> str:
        """What is noted about how it ended, where that is more than its exit status."""
        result = self.action.result or {}
        note = result.get("note") or ""
        return "" if note in ("exited", f"exit {result.get('exit_status')}") else note

    @property
    def ended(self):
        return self.action.ended_at

    @cached_property
    def output_address(self) -> str:
        """The command that the runner made of it, with its output."""
        command = Command.objects.filter(effect=self.action.effect_id).first() if self.action.effect_id else None
        return self._in_workspace("command", command.pk) if command else ""

    @property
    def changes_address(self) -> str:
        before = self.action.snapshot_before
        if before is None:
            return ""
        return f"{self._in_workspace('workspace-changes')}?from={before.number}&to=live"

    @property
    def rollback_address(self) -> str:
        return reverse("action-rollback", args=[self.action.pk]) if self.action.snapshot_before else ""

    @property
    def terminals(self) -> list[tuple[str, str]]:
        """Where it may have been asked from: (the place in a recording, what runs there)."""
        if self.action.workspace_id is None:
            return []
        found = terminals.open_at(self.action.workspace_id, self.action.created_at)
        return [
            (f"{self._in_workspace('terminal-recording', terminal.pk)}?at={seconds:.1f}", terminals.name_of(terminal))
            for terminal, seconds in found
        ]

    def _in_workspace(self, name: str, *more) -> str:
        workspace = self.action.workspace
        return reverse(name, args=[workspace.team.slug, workspace.key, *more])

    @property
    def step_says(self) -> str:
        if self.action.quorum > 1:
            return f"{self.action.title}. Critical: it takes {self.action.quorum} people."
        return f"{self.action.title}."

    @property
    def state(self) -> str:
        return ACTION_STATES["expired" if self.is_late else self.action.status][0]

    @property
    def state_name(self) -> str:
        return "expired" if self.is_late else self.action.status

    @property
    def tone(self) -> str:
        """Of the rail: the tier while it waits, then how it ended."""
        return TIERS[self.action.tier][1] if self.is_open else ACTION_STATES[self.state_name][1]

    @property
    def isolation(self) -> str:
        workspace = self.action.workspace
        return f"{isolation.of(workspace)} isolation" if workspace else ""

    @property
    def version(self) -> str:
        """Another one means: what was on the screen is not how it stands."""
        return f"{self.action.status}.{self.action.revision}.{len(self.votes)}.{int(self.is_late)}"

    @cached_property
    def evidence(self) -> Evidence:
        return evidence_of(self.action, self.revision)

    @property
    def evidence_comes_later(self) -> bool:
        """The live tree has to be looked through, so the bytes and the bar come first."""
        return not is_quick(self.action, self.revision)


def pretty(arguments: dict) -> str:
    """For reading and editing: one name on each line."""
    return json.dumps(arguments, ensure_ascii=False, indent=2)

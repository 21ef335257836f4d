"""What a changed policy would have done with the calls of the last month, before it is saved.

Both texts judge the same recorded calls in the helper processes, by what the record holds: the call, its folder, and
whether it could be held. Files of today are not looked at, and programs that either text trusts are taken for the
trusted ones, so a difference comes from the text alone. Calls that hold nothing of what changed are not judged: both
texts treat them alike (approvals.policy.needles).
"""

import hashlib
import time
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import OuterRef, Subquery

from approvals.evaluation import policies, workers
from approvals.evaluation.calls import parsed, root_of, sha256
from approvals.evaluation.context.symlinks import home_of
from approvals.evaluation.judge import PolicyResult, adjusted, around_call, can_be_held
from approvals.models import Action, Policy, Revision, Tier
from approvals.policy.needles import touches
from approvals.policy.people import Takes, least
from approvals.questions import own_questions
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.text import strict_json
from workspaces.models import Workspace
from workspaces.services import network

DAYS = 30
MAX_LISTED = 100  # calls listed in a group
SECONDS = 30.0
PAGE = 500  # actions that are read at once
BATCH = 40  # calls that a helper process judges at once
MAX_KNOWN = 20_000  # verdicts on distinct calls that are remembered

# Groups of changes, the strictest first.
FORBIDDEN, ASKED, MORE_PEOPLE, FEWER_PEOPLE, ALLOWED_AGAIN, RUNS = (
    "forbidden",
    "asked",
    "more_people",
    "fewer_people",
    "allowed_again",
    "runs",
)
GROUPS = (FORBIDDEN, ASKED, MORE_PEOPLE, FEWER_PEOPLE, ALLOWED_AGAIN, RUNS)
COLUMNS = ("pk", "number", "created_at", "undo", "mode", "envelope", "workspace_id", "agent__name", "canonical")


@dataclass(frozen=True)
class Change:
    """An action on which the two texts differ."""

    action: Action
    before: str
    after: str
    rule: str  # of the changed text, if one decides
    rule_before: str
    takes_before: Takes  # the people who approve it, if it asks any
    takes_after: Takes


@dataclass
class Effect:
    """The actions that a changed text would treat differently. `of` actions were recorded, `judged` were compared.

    `counts` are of each group; `groups` list the newest MAX_LISTED of each.
    """

    days: int = DAYS
    of: int = 0
    judged: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    groups: dict[str, list[Change]] = field(default_factory=lambda: {name: [] for name in GROUPS})

    @property
    def is_cut(self) -> bool:
        return self.judged < self.of

    @property
    def changed(self) -> int:
        return sum(self.counts.values())

    @property
    def same(self) -> int:
        return self.judged - self.changed


@dataclass(frozen=True, slots=True)
class _Row:
    """An action as far as a judgement looks at it."""

    pk: UUID
    number: int
    created_at: datetime
    undo: str
    mode: str
    envelope: dict | None
    workspace_id: UUID | None
    agent: str
    canonical: bytes


@dataclass
class _Case:
    """A distinct call, and the actions that asked for it."""

    call: tuple  # (tool, arguments, world)
    rows: list[_Row]


def of_text(scope: Scope, text: str, *, seconds: float = SECONDS) -> Effect:
    """Compare a text with the policy in force for `seconds`, the newest actions first. Problem 422: an invalid text."""
    replay = Replay(scope, text)
    replay.advance(seconds)
    return replay.effect()


class Replay:
    """A comparison that goes on where it stopped. It keeps no more than a page of actions, and a bounded memory."""

    def __init__(self, scope: Scope, text: str):
        policies.require_valid(text)
        self.scope, self.sides, self.found = scope, _Sides(scope, text), Effect()
        self.actions = _recorded(scope)
        self.found.of = self.actions.count()
        self.next = None  # the number below which the next page begins
        self.left: list[_Row] = []  # of the last page, for which there was no time
        self.known: OrderedDict[bytes, list] = OrderedDict()  # {digest of a call: its verdicts}
        self.listed = {name: [] for name in GROUPS}  # of (row, before, after, rule, rule before)
        self.is_done = False

    def advance(self, seconds: float):
        """Go on for this many seconds, or to the end."""
        until = time.monotonic() + seconds
        while not self.is_done and time.monotonic() < until:
            rows = self.left or self._page()
            self.is_done = not rows
            self.left = self._judge(rows, until)

    def effect(self) -> Effect:
        """Return what was found so far."""
        listed = {change[0].pk for name in GROUPS for change in self._newest(name)}
        rows = Action.objects.filter(pk__in=listed).select_related("agent__owner", "workspace__environment")
        actions = {action.pk: action for action in rows}
        self.found.groups = {
            name: [Change(actions[row.pk], *more) for row, *more in self._newest(name) if row.pk in actions]
            for name in GROUPS
        }
        return self.found

    def _page(self) -> list[_Row]:
        rows = self.actions if self.next is None else self.actions.filter(number__lt=self.next)
        page = [_Row(*values) for values in rows.values_list(*COLUMNS)[:PAGE]]
        self.next = page[-1].number if page else self.next
        return page

    def _judge(self, rows: list[_Row], until: float) -> list[_Row]:
        """Note what the texts say of each action; return those for which the time did not suffice."""
        waiting: dict[str, dict[bytes, _Case]] = defaultdict(dict)  # by environment with a policy of its own, else ""
        self.sides.load({row.workspace_id for row in rows})
        for row in rows:
            own, call = self.sides.own_name(row), self.sides.call_of(row)
            if not touches(self.sides.needles(own), call[0], call[1]):
                self.found.judged += 1
                continue
            key = hashlib.sha256(strict_json.canonical({"own": own, "call": list(call)})).digest()
            if key in self.known:
                self.known.move_to_end(key)
                self._note([row], call, self.known[key])
            else:
                waiting[own].setdefault(key, _Case(call, [])).rows.append(row)
        return self._ask(waiting, until)

    def _ask(self, waiting: dict[str, dict[bytes, _Case]], until: float) -> list[_Row]:
        """Have the helper processes judge these calls, several at a time; return the rows of those that are left."""
        batches = []
        for own, cases in waiting.items():
            listed = list(cases.items())
            batches += [(own, listed[at : at + BATCH]) for at in range(0, len(listed), BATCH)]
        with ThreadPoolExecutor(workers.MAX_JUDGES) as pool:
            asked = [pool.submit(copy_context().run, self._verdicts, own, cases, until) for own, cases in batches]
        left = []
        for (_, cases), answer in zip(batches, asked, strict=True):
            verdicts = answer.result()
            left += [row for _, case in cases[len(verdicts) :] for row in case.rows]
            for (key, case), found in zip(cases, verdicts, strict=False):
                self._remember(key, found)
                self._note(case.rows, case.call, found)
        return left

    def _verdicts(self, own: str, cases: list, until: float) -> list:
        left = until - time.monotonic()
        before, after = self.sides.pairs(own)
        try:
            asked = [case.call for _, case in cases]
            return workers.compare(asked, before=before, after=after, seconds=left) if left > 0 else []
        except workers.Late:
            return []

    def _remember(self, key: bytes, found: list):
        self.known[key] = found
        if len(self.known) > MAX_KNOWN:
            self.known.popitem(last=False)

    def _note(self, rows: list[_Row], call: tuple, found: list):
        (before, rule_before), (after, rule) = found
        for row in rows:
            self.found.judged += 1
            workspace = self.sides.workspaces.get(row.workspace_id)
            was, will_be = (_in_force(row, workspace, call, *each) for each in ((before, rule_before), (after, rule)))
            takes = self.sides.takes(row, call, was, will_be)
            if group := group_of(was, will_be, *takes):
                self.found.counts[group] += 1
                told = replace(row, canonical=b"")  # which may be a megabyte
                self.listed[group].append((told, was, will_be, rule or "", rule_before or "", *takes))
                if len(self.listed[group]) > 2 * MAX_LISTED:
                    self.listed[group] = self._newest(group)

    def _newest(self, group: str) -> list:
        return sorted(self.listed[group], key=lambda change: -change[0].number)[:MAX_LISTED]


def _recorded(scope: Scope):
    """Return the actions of the last DAYS days that the scope's policy judges or forbids, newest first."""
    revisions = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    found = Action.objects.filter(team=scope.team, created_at__gte=clock.now() - timedelta(days=DAYS))
    if scope.environment:
        found = found.filter(workspace__environment__name=scope.name)
    found = found.exclude(tool__startswith="Handrail.")
    return found.annotate(canonical=Subquery(revisions.values("canonical")[:1])).order_by("-number")


class _Sides:
    """The policies before and after the change, for each action."""

    def __init__(self, scope: Scope, text: str):
        self.scope, self.team = scope, policies.for_display(scope.team.pk)
        self.changed = Policy(team=scope.team, text=text, sha256=sha256(text.encode()))
        saved = Policy.objects.filter(team=scope.team, active=True, environment__isnull=False)
        self.own = {each.environment.name: each for each in saved.select_related("environment")}
        self.hosts: dict = {}  # {workspace id: hosts that it may reach}
        self.workspaces: dict = {}  # {workspace id: row}
        self.people: dict[str, list] = {}  # {environment with a policy of its own, else "": {tier: Takes} of each side}
        self.needled: dict[str, dict] = {}  # {environment with a policy of its own, else "": approvals.policy.needles}
        known = [policies.checked(each) for each in (scope.policy, self.changed, self.team, *self.own.values())]
        self.programs = {each["name"]: each for found in known[:2] for each in found["trust"]["programs"]}
        # What is compared besides the calls: only what a condition asks about, so that equal calls are judged once.
        self.asks_about = {key for found in known for block in found["blocks"] for key in block["conditions"]}

    def load(self, ids: set):
        """Load the workspaces with these ids."""
        missing = ids - self.workspaces.keys() - {None}
        rows = Workspace.objects.filter(pk__in=missing).select_related("environment", "team") if missing else ()
        self.workspaces.update({row.pk: row for row in rows})

    def own_name(self, row: _Row) -> str:
        workspace = self.workspaces.get(row.workspace_id)
        name = workspace.environment.name if workspace else ""
        return name if name in self.own else ""

    def needles(self, own: str) -> dict:
        """Return what a call must hold so that the two sides can differ about it."""
        if own not in self.needled:
            before, after = self.pairs(own)
            try:
                self.needled[own] = workers.needles(before=before, after=after)
            except workers.Late:
                self.needled[own] = {"all": True}
        return self.needled[own]

    def pairs(self, own: str) -> tuple[tuple, tuple]:
        """Return (policy, floor) before and after the change, where this environment's policy judges."""
        if self.scope.environment is None:
            mine = self.own.get(own)
            return ((mine, self.team), (mine, self.changed)) if mine else ((self.team, None), (self.changed, None))
        mine = self.scope.own
        return ((mine, self.team) if mine else (self.team, None)), (self.changed, self.team)

    def takes(self, row: _Row, call: tuple, before: str, after: str) -> tuple[Takes, Takes]:
        """Return who has to approve the call before and after the change; one person answers an agent's question."""
        if call[0] in own_questions.TOOLS:
            return Takes(), Takes()
        own = self.own_name(row)
        if own not in self.people:
            self.people[own] = [policies.approvals(*pair) for pair in self.pairs(own)]
        was, will_be = self.people[own]
        return least(was, before), least(will_be, after)

    def call_of(self, row: _Row) -> tuple:
        call, workspace = parsed(row.canonical), self.workspaces.get(row.workspace_id)
        root = root_of(workspace) if workspace else None
        context = {"programs": self.programs} if self.programs else {}
        context |= self._around(row, workspace)
        if row.envelope is not None or can_be_held(row.mode, call["tool"], workspace):
            context |= {"held": True, "hosts": self._hosts(workspace), "code_host": False}
        world = {"cwd": call["cwd"], "workspace_root": root, "home": home_of(workspace), "context": context}
        return call["tool"], call["arguments"], world

    def _around(self, row: _Row, workspace) -> dict:
        """Return what the conditions are asked about: the labels of today, and the time to a quarter of an hour."""
        names = {"agent": "agent", "environment": "environment", "label": "labels", "hours": "at"}
        at = row.created_at.replace(minute=row.created_at.minute // 15 * 15, second=0, microsecond=0)
        found = around_call(row.agent, workspace, at=at)
        return {name: found[name] for condition, name in names.items() if condition in self.asks_about}

    def _hosts(self, workspace) -> list:
        if workspace.pk not in self.hosts:
            self.hosts[workspace.pk] = list(network.agent_rules(workspace))
        return self.hosts[workspace.pk]


def _in_force(row: _Row, workspace, call: tuple, tier: str, rule: str | None) -> str:
    reading = PolicyResult(tier=tier, reasons=[], undo=row.undo, title="", rule=rule or "")
    return str(adjusted(call[0], call[1], reading, workspace).tier)


def group_of(before: str, after: str, takes_before: Takes, takes_after: Takes) -> str | None:
    """Return the group of a change from one tier to another; None if it makes no difference to a person."""
    ways = {Tier.LOW: "runs", Tier.MEDIUM: "runs", Tier.HIGH: "asks", Tier.CRITICAL: "asks", Tier.FORBIDDEN: "refused"}
    was, will_be = ways[Tier(before)], ways[Tier(after)]
    if was == will_be == "asks" and takes_before != takes_after:
        return MORE_PEOPLE if takes_after.meets(takes_before) else FEWER_PEOPLE
    if was == will_be:
        return None
    if will_be == "refused":
        return FORBIDDEN
    if will_be == "runs":
        return RUNS
    return ALLOWED_AGAIN if was == "refused" else ASKED

"""What a changed policy would have done with the calls of the last month, before it is saved.

Both texts judge the same recorded calls in the helper processes, by what the record holds: the call, its folder, and
whether it could be held. Files of today are not looked at, and programs that either text trusts are taken for the
trusted ones, so a difference comes from the text alone.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice

from django.db.models import OuterRef, Subquery

from approvals.evaluation import policies, workers
from approvals.evaluation.calls import parsed, root_of, sha256
from approvals.evaluation.context.symlinks import home_of
from approvals.evaluation.judge import PolicyResult, adjusted, around_call, can_be_held
from approvals.models import Action, Policy, Revision, Tier
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.database.batches import in_batches
from dashboard.text import strict_json
from workspaces.services import network

DAYS = 30
MAX_ACTIONS = 20_000
MAX_LISTED = 100  # calls listed in a group
SECONDS = 8.0
BATCH = 40  # calls that a helper process judges at once

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


@dataclass(frozen=True)
class Change:
    """An action on which the two texts differ."""

    action: Action
    before: str
    after: str
    rule: str  # of the changed text, if one decides
    rule_before: str


@dataclass
class Effect:
    """The actions that a changed text would treat differently. `of` actions were recorded, `judged` were compared."""

    days: int = DAYS
    of: int = 0
    judged: int = 0
    groups: dict[str, list[Change]] = field(default_factory=lambda: {name: [] for name in GROUPS})

    @property
    def is_cut(self) -> bool:
        return self.judged < self.of

    @property
    def changed(self) -> int:
        return sum(map(len, self.groups.values()))

    @property
    def same(self) -> int:
        return self.judged - self.changed


@dataclass
class _Case:
    """A distinct call, and the actions that asked for it."""

    call: tuple  # (tool, arguments, world)
    actions: list[Action]


def of_text(scope: Scope, text: str, *, seconds: float = SECONDS) -> Effect:
    """Compare a text with the policy in force for `seconds`, the newest actions first. Problem 422: an invalid text."""
    policies.require_valid(text)
    sides, effect = _Sides(scope, text), Effect()
    actions = _recorded(scope)
    effect.of = actions.count()
    until = time.monotonic() + seconds
    known: dict[str, list] = {}  # {key of a call: its verdicts}
    waiting: dict[str, dict[str, _Case]] = defaultdict(dict)  # by environment with a policy of its own, else ""
    for action in islice(in_batches(actions, 200), MAX_ACTIONS):
        if time.monotonic() > until:
            break
        own = sides.own_name(action)
        call = sides.call_of(action)
        key = sha256(strict_json.canonical({"own": own, "call": list(call)}))
        if key in known:
            _note(effect, [action], call, known[key])
        elif key in waiting[own]:
            waiting[own][key].actions.append(action)
        else:
            waiting[own][key] = _Case(call, [action])
        if len(waiting[own]) >= BATCH:
            _judge(sides, own, waiting.pop(own), known, effect, until)
    for own, cases in waiting.items():
        _judge(sides, own, cases, known, effect, until)
    for changes in effect.groups.values():
        changes.sort(key=lambda change: -change.action.number)
    return effect


def _recorded(scope: Scope):
    """Return the actions of the last DAYS days that the scope's policy judges or forbids, newest first."""
    revisions = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    found = Action.objects.filter(team=scope.team, created_at__gte=clock.now() - timedelta(days=DAYS))
    if scope.environment:
        found = found.filter(workspace__environment__name=scope.name)
    found = found.exclude(tool__startswith="Handrail.").select_related("agent__owner", "workspace__environment")
    return found.annotate(canonical=Subquery(revisions.values("canonical")[:1])).order_by("-created_at", "-number")


class _Sides:
    """The policies before and after the change, for each action."""

    def __init__(self, scope: Scope, text: str):
        self.scope, self.team = scope, policies.for_display(scope.team.pk)
        self.changed = Policy(team=scope.team, text=text, sha256=sha256(text.encode()))
        saved = Policy.objects.filter(team=scope.team, active=True, environment__isnull=False)
        self.own = {each.environment.name: each for each in saved.select_related("environment")}
        self.hosts: dict = {}  # {workspace id: hosts that it may reach}
        known = [policies.checked(each) for each in (scope.policy, self.changed, self.team, *self.own.values())]
        self.programs = {each["name"]: each for found in known[:2] for each in found["trust"]["programs"]}
        # What is compared besides the calls: only what a condition asks about, so that equal calls are judged once.
        self.asks_about = {key for found in known for block in found["blocks"] for key in block["conditions"]}

    def own_name(self, action: Action) -> str:
        name = action.workspace.environment.name if action.workspace else ""
        return name if name in self.own else ""

    def pairs(self, own: str) -> tuple[tuple, tuple]:
        """Return (policy, floor) before and after the change, where this environment's policy judges."""
        if self.scope.environment is None:
            mine = self.own.get(own)
            return ((mine, self.team), (mine, self.changed)) if mine else ((self.team, None), (self.changed, None))
        mine = self.scope.own
        return ((mine, self.team) if mine else (self.team, None)), (self.changed, self.team)

    def call_of(self, action: Action) -> tuple:
        call, workspace = parsed(action.canonical), action.workspace
        root = root_of(workspace) if workspace else None
        context = {"programs": self.programs} if self.programs else {}
        context |= self._around(action)
        if action.envelope is not None or can_be_held(action.mode, call["tool"], workspace):
            context |= {"held": True, "hosts": self._hosts(workspace), "code_host": False}
        world = {"cwd": call["cwd"], "workspace_root": root, "home": home_of(workspace), "context": context}
        return call["tool"], call["arguments"], world

    def _around(self, action: Action) -> dict:
        """Return what the conditions are asked about: the labels of today, and the time to a quarter of an hour."""
        names = {"agent": "agent", "environment": "environment", "label": "labels", "hours": "at"}
        at = action.created_at.replace(minute=action.created_at.minute // 15 * 15, second=0, microsecond=0)
        found = around_call(action.agent.name, action.workspace, at=at)
        return {name: found[name] for condition, name in names.items() if condition in self.asks_about}

    def _hosts(self, workspace) -> list:
        if workspace.pk not in self.hosts:
            self.hosts[workspace.pk] = list(network.agent_rules(workspace))
        return self.hosts[workspace.pk]


def _judge(sides: _Sides, own: str, cases: dict[str, _Case], known: dict, effect: Effect, until: float):
    """Judge some distinct calls by both texts; those for which the time does not suffice are left out."""
    left = until - time.monotonic()
    before, after = sides.pairs(own)
    try:
        asked = [case.call for case in cases.values()]
        verdicts = workers.compare(asked, before=before, after=after, seconds=left) if left > 0 else []
    except workers.Late:
        verdicts = []
    for (key, case), found in zip(cases.items(), verdicts, strict=False):
        known[key] = found
        _note(effect, case.actions, case.call, found)


def _note(effect: Effect, actions: list[Action], call: tuple, found: list):
    (before, rule_before), (after, rule) = found
    for action in actions:
        effect.judged += 1
        was, will_be = (_in_force(action, call, *each) for each in ((before, rule_before), (after, rule)))
        if group := group_of(was, will_be):
            effect.groups[group].append(Change(action, was, will_be, rule or "", rule_before or ""))


def _in_force(action: Action, call: tuple, tier: str, rule: str | None) -> str:
    reading = PolicyResult(tier=tier, reasons=[], undo=action.undo, title="", rule=rule or "")
    return str(adjusted(call[0], call[1], reading, action.workspace).tier)


def group_of(before: str, after: str) -> str | None:
    """Return the group of a change from one tier to another; None if it makes no difference to a person."""
    ways = {Tier.LOW: "runs", Tier.MEDIUM: "runs", Tier.HIGH: "asks", Tier.CRITICAL: "two", Tier.FORBIDDEN: "refused"}
    was, will_be = ways[Tier(before)], ways[Tier(after)]
    if was == will_be:
        return None
    if will_be == "refused":
        return FORBIDDEN
    if will_be == "runs":
        return RUNS
    if was == "refused":
        return ALLOWED_AGAIN
    return ASKED if was == "runs" else MORE_PEOPLE if will_be == "two" else FEWER_PEOPLE

"""What the policy or a grant let run without asking: ranked by what makes it worth a look, and marked as looked at.

Each reason has a weight; an action's rank is their sum. Nothing here changes what runs.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath

from django.db.models import Q, TextChoices
from django.utils.translation import gettext_lazy

from approvals.actions.transitions import record
from approvals.evaluation.calls import beneath, root_of
from approvals.models import Action, Look, Revision, Status, Tier
from approvals.policy.paths import is_protected
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import not_allowed

MAX_RANKED = 2000  # actions ranked at once, the newest
MAX_EARLIER = 4000  # earlier calls in which an agent's programs are looked for
MAX_MARKED = 200  # in one request
CHANGES = ("write", "delete")
NETWORK = ("network", "push", "remote", "install")


class Why(TextChoices):
    """A reason to look at an action; the labels are shown."""

    BLOCKED = "blocked", gettext_lazy("the kernel refused something")
    PROTECTED = "protected", gettext_lazy("changes a file that takes effect by itself")
    OUTSIDE = "outside", gettext_lazy("changes files outside the workspace")
    UNCLEAR = "unclear", gettext_lazy("ended without a known outcome")
    NETWORK = "network", gettext_lazy("uses the network")
    FIRST = "first", gettext_lazy("the first time this agent runs it")
    DELETES = "deletes", gettext_lazy("deletes")
    GRANT = "grant", gettext_lazy("allowed by a grant")
    FAILED = "failed", gettext_lazy("failed")
    MEDIUM = "medium", gettext_lazy("medium risk")


WEIGHTS = {
    Why.BLOCKED: 8,
    Why.PROTECTED: 7,
    Why.OUTSIDE: 6,
    Why.UNCLEAR: 5,
    Why.NETWORK: 4,
    Why.FIRST: 3,
    Why.DELETES: 2,
    Why.GRANT: 2,
    Why.FAILED: 1,
    Why.MEDIUM: 1,
}


@dataclass
class Found:
    """An action and why a person should look at it, the weightiest reason first; `detail` names what it is about."""

    action: Action
    why: list[Why] = field(default_factory=list)
    detail: dict[Why, str] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        return sum(WEIGHTS[why] for why in self.why)

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """(label, what it is about or "") of each reason."""
        return [(str(why.label), self.detail.get(why, "")) for why in self.why]

    def add(self, why: Why, detail: str = ""):
        self.why.append(why)
        self.detail[why] = detail


def auto_approved_actions(caller):
    """Return the actions that ran, or may run, without a person's answer to them."""
    allowed = Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False)
    return Action.objects.visible_to(caller).filter(allowed).exclude(status__in=[Status.PENDING, Status.DENIED])


def ranked(caller, since: datetime, until: datetime | None, *, looked: bool) -> tuple[list[Found], int]:
    """Return what is worth a look in the span, the weightiest and then newest first, and how many were ranked.

    `looked`: those that somebody looked at instead. In a constant number of queries.
    """
    inside = Q(created_at__gte=since) & (Q(created_at__lt=until) if until else Q())
    actions = auto_approved_actions(caller).filter(inside, look__isnull=not looked)
    actions = actions.select_related("agent__owner", "workspace__team", "team", "look__user", "grant__by")
    shown = list(actions.prefetch_related("revisions").order_by("-created_at", "-pk")[:MAX_RANKED])
    known = _programs_before(shown, caller)
    found = [_judged(action, known) for action in reversed(shown)]  # the oldest first, which learns the programs
    worth = [each for each in reversed(found) if each.why]
    return sorted(worth, key=lambda each: -each.weight), len(shown)


def _programs_before(actions: list[Action], caller) -> set:
    """Return (agent, program) of the calls before these, as far as MAX_EARLIER reaches."""
    if not actions:
        return set()
    first, agents = actions[-1].created_at, {action.agent_id for action in actions}
    earlier = Revision.objects.filter(
        action__in=Action.objects.visible_to(caller).filter(agent__in=agents, created_at__lt=first)
    )
    rows = earlier.order_by("-created_at").values_list("action__agent", "commands")[:MAX_EARLIER]
    return {(agent, program) for agent, commands in rows for program in _programs(commands)}


def _programs(commands: list) -> list[str]:
    """Return the names of the programs in a parsed call."""
    words = (part.get("words") for part in commands)
    return [PurePosixPath(found[0]).name for found in words if found and isinstance(found[0], str)]


def _judged(action: Action, known: set) -> Found:
    """Collect the reasons of one action; `known` learns its programs."""
    found, commands = Found(action), _commands(action)
    if action.blocked:
        found.add(Why.BLOCKED, str(action.blocked[0].get("what", "")))
    _judge_files(found, commands)
    if action.status == Status.UNCERTAIN:
        found.add(Why.UNCLEAR)
    _judge_programs(found, commands, known)
    if action.grant_id:
        found.add(Why.GRANT, action.grant.by.get_username())
    if action.status == Status.FAILED:
        found.add(Why.FAILED)
    if action.tier == Tier.MEDIUM:
        found.add(Why.MEDIUM)
    found.why.sort(key=lambda why: -WEIGHTS[why])
    return found


def _commands(action: Action) -> list:
    current = next((each for each in action.revisions.all() if each.number == action.revision), None)
    return current.commands if current else []


def _judge_files(found: Found, commands: list):
    """Add what is said of the files that it changes: protected ones, outside the workspace, deleted."""
    workspace = found.action.workspace
    root = root_of(workspace) if workspace else None
    for part in commands:
        if (part.get("kind") or part.get("what")) not in CHANGES:
            continue
        names = [name for name in part.get("names") or part.get("targets") or () if isinstance(name, str) and name]
        for name in names:
            if Why.PROTECTED not in found.why and is_protected(PurePosixPath(name).parts):
                found.add(Why.PROTECTED, name)
            if root and Why.OUTSIDE not in found.why and beneath(name, part.get("cwd") or root, root) is None:
                found.add(Why.OUTSIDE, name)
        if part.get("kind") == "delete" and Why.DELETES not in found.why:
            found.add(Why.DELETES, ", ".join(names[:3]))


def _judge_programs(found: Found, commands: list, known: set):
    """Add the use of the network, and a program that its agent had not run before."""
    reaching = next((part for part in commands if part.get("kind") in NETWORK or part.get("what") in NETWORK), None)
    if reaching:
        found.add(Why.NETWORK, str(reaching.get("reason") or ""))
    agent = found.action.agent_id
    new = [program for program in _programs(commands) if (agent, program) not in known]
    if new:
        found.add(Why.FIRST, new[0])
        known.update((agent, program) for program in new)


def mark_looked(caller, pks: list) -> int:
    """Mark actions as looked at by this person, each with its event; return how many. Problem 403.

    What somebody looked at before keeps its mark; what the caller may not see, or a person decided, is left out.
    """
    teams = [team for team in caller.team_ids if caller.is_person and caller.can("decide", team)]
    found = list(auto_approved_actions(caller).filter(pk__in=pks[:MAX_MARKED], look=None).order_by("number"))
    if not teams or any(action.team_id not in teams for action in found):
        raise not_allowed("Only a reviewer, lead or admin can mark actions as looked at.")
    return sum(_mark(action, caller) for action in found)


def _mark(action: Action, caller) -> bool:
    with Team.objects.turn(action.team_id):
        made = Look.objects.get_or_create(action=action, defaults={"user": caller.user, "at": clock.now()})[1]
        if made:
            record(action, "action.looked_at", caller.actor)
    return made

"""What the policy in force says of a call. Whatever goes wrong here asks a person."""

import logging
import re
from dataclasses import dataclass, field, replace

from django.db.models import Prefetch

from approvals import policies
from approvals.calls import parsed, root_of
from approvals.context import AWAY, changes_files, context_for, home_of
from approvals.models import Action, Decision, Policy, Revision, Tier
from approvals.policy import Policy as RuleSet
from approvals.policy import classify

logger = logging.getLogger("handrail.gate")

ALLOWED = (Tier.LOW, Tier.MEDIUM)
PEOPLE = {Tier.CRITICAL: 2}  # how many different people must approve; everything else that waits needs one
TITLE = 300
# A name and password in an address: titles go to the log, which nobody can take anything out of again.
CREDENTIALS = re.compile(r"//[^/\s@]+@")
# Handrail's own verbs (approvals.verbs), which no rule can allow: {tool: headline}.
OWN_VERBS = {
    "Handrail.Delete": "Move the workspace {key} to the trash",
    "Handrail.Reset": "Put {key} back to the snapshot after set-up",
    "Handrail.Restore": "Put {key} back to snapshot {snapshot}",
    "Handrail.Push": "Push {key} to the branch {branch} of {remote}",
    "Handrail.Allow": "Let {key} reach {host}, {how_long}",
}

FOR_GOOD = ("Handrail.Push", "Handrail.Allow")  # what left the workspace does not come back
HOW_LONG = {"once": "once", "workspace": "from now on", "environment": "and let its environment reach it"}


class Unjudged(Exception):
    """The policy could not be asked; who would rely on it must not."""


@dataclass(frozen=True)
class Reading:
    """A verdict, and the policy version that gave it."""

    tier: str
    reasons: list
    undo: str
    title: str
    rule: str = ""
    commands: list = field(default_factory=list)
    policy: Policy | None = None

    @property
    def is_allowed(self) -> bool:
        return self.tier in ALLOWED

    @property
    def waits(self) -> bool:
        return not self.is_allowed and self.tier != Tier.FORBIDDEN

    @property
    def quorum(self) -> int:
        return PEOPLE.get(self.tier, 1)


def judge(tool: str, arguments: dict, cwd: str | None, workspace, team_id, mcp_server: str = "") -> Reading:
    """Ask the policy in force. Raises Unjudged."""
    if tool in OWN_VERBS:
        how_long = HOW_LONG.get(arguments.get("scope"), "")
        known = {"snapshot": "", "branch": "", "host": "", "remote": workspace.source.get("git")}
        known |= arguments | {"how_long": how_long}
        title = without_credentials(OWN_VERBS[tool].format(key=workspace.key, **known))[:TITLE]
        undo = "no" if tool in FOR_GOOD else "yes"
        why = "Waits because an agent does not do this to a workspace by itself."
        return Reading(tier=Tier.HIGH.value, reasons=[why], undo=undo, title=title)
    try:
        policy = policies.active(team_id, workspace.environment if workspace else None)
        root = root_of(workspace) if workspace else "/workspace"
        verdict, away = _verdict(tool, arguments, cwd or root, workspace, policies.compiled(policy), mcp_server)
        reading = Reading(
            tier=Tier(verdict.tier).value,
            reasons=[without_credentials(str(reason)) for reason in verdict.reasons],
            undo=verdict.undo if verdict.undo in ("yes", "partly") else "no",
            title=without_credentials(verdict.title or f"Use {tool}")[:TITLE],
            rule=(verdict.rule or "")[:500],
            commands=[line | {"reason": without_credentials(line["reason"])} for line in verdict.commands],
            policy=policy,
        )
    except Exception as error:
        # The broad handler that fails closed: a policy that breaks is never a policy that allows.
        logger.exception("no verdict on a %s call", tool)
        raise Unjudged(type(error).__name__) from error
    if away and reading.is_allowed and changes_files(tool, reading.commands):
        return replace(reading, tier=Tier.HIGH.value, reasons=[AWAY, *reading.reasons])
    return reading if workspace else _without_workspace(reading)


def without_credentials(text: str) -> str:
    """What Handrail says of a call. The call itself is shown as it is: its bytes are what is approved."""
    return CREDENTIALS.sub("//…@", text)


def _verdict(tool: str, arguments: dict, cwd: str, workspace, policy, mcp_server: str):
    """(the verdict, whether the files could not be looked at). Told of symlinks, the policy judges a second time."""
    root = root_of(workspace) if workspace else cwd
    world = {"policy": policy, "cwd": cwd, "workspace_root": root, "home": home_of(workspace)}
    first = classify(tool, arguments, **world)
    context = context_for(tool, arguments, cwd, workspace, first.commands, mcp_server)
    verdict = classify(tool, arguments, **world, context=context.known) if context.known else first
    return verdict, context.away


def covered(rules: list[str], tool: str, arguments: dict, cwd: str | None, workspace) -> bool:
    """Whether these rules alone would let the call through; what cannot be found out is not covered."""
    only = RuleSet.of_rules(rules)
    try:
        verdict, away = _verdict(tool, arguments, cwd or root_of(workspace), workspace, only, "")
    except Exception:
        # As in `judge`: what breaks here asks a person.
        logger.exception("no verdict on whether a %s call is covered", tool)
        return False
    return verdict.tier == Tier.LOW and not away


def _without_workspace(reading: Reading) -> Reading:
    """Outside every workspace nothing is saved first, so nothing can be put back; what no rule allows must ask."""
    reading = replace(reading, undo="no") if reading.undo == "yes" and reading.tier != Tier.LOW else reading
    if reading.tier == Tier.MEDIUM and not reading.rule:
        why = "Waits because it works outside every workspace: no snapshot is taken before it."
        return replace(reading, tier=Tier.HIGH.value, reasons=[why, *reading.reasons])
    return reading


def judge_or_ask(tool: str, arguments: dict, cwd: str | None, workspace, team_id, mcp_server: str = "") -> Reading:
    """The verdict, or one that asks a person and says that the policy could not be asked."""
    try:
        return judge(tool, arguments, cwd, workspace, team_id, mcp_server)
    except Unjudged as error:
        why = f"Waits because the policy could not judge it ({error})."
        return Reading(tier=Tier.HIGH.value, reasons=[why], undo="no", title=f"Use {tool}"[:TITLE])


def judge_again(action: Action) -> Reading:
    """The verdict of the policy in force now on the current revision. Raises Unjudged."""
    call = content(action)
    return judge(call["tool"], call["arguments"], call["cwd"], action.workspace, action.team_id)


def with_all(actions, *, bodies=True):
    """The actions with all that an answer about them needs, in a constant number of queries."""
    revisions = Revision.objects.all() if bodies else Revision.objects.defer("canonical")
    return actions.select_related(
        "team",
        "agent",
        "agent__owner",
        "workspace",
        "workspace__environment",
        "policy",
        "effect",
        "snapshot_before",
        "grant__by",
    ).prefetch_related(Prefetch("revisions", revisions), Prefetch("decisions", Decision.objects.select_related("user")))


def current(action: Action) -> Revision:
    """The revision that counts."""
    return next((r for r in action.revisions.all() if r.number == action.revision), None) or action.revisions.get(
        number=action.revision
    )


def content(action: Action) -> dict:
    """{tool, arguments, cwd, workspace} of the revision that counts."""
    return parsed(current(action).canonical)

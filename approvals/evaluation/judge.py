"""Evaluate a call against the active policy. Any error here leads to a question for a person."""

import logging
from dataclasses import dataclass, field, replace

from django.db.models import Prefetch

from approvals.evaluation import decision_point, duty, kept_paths, policies, policy_files, workers
from approvals.evaluation.calls import BROKER, parsed, root_of
from approvals.evaluation.context import code_host
from approvals.evaluation.context.addresses import destinations_of
from approvals.evaluation.context.downloads import downloads_for
from approvals.evaluation.context.programs import programs_for
from approvals.evaluation.context.scripts import scripts_for
from approvals.evaluation.context.servers import servers_for
from approvals.evaluation.context.symlinks import AWAY, changes_files, context_for, home_of
from approvals.evaluation.own_verbs import OWN_VERBS, title_of
from approvals.models import Action, Decision, Policy, PolicyFile, Revision, Tier
from approvals.policy import PolicyError
from approvals.policy.escalation import Escalation
from approvals.policy.people import Takes, least
from approvals.policy.verdict import reason
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.text.strict_json import without_nul
from workspaces.provisioning import isolation
from workspaces.provisioning.isolation import holds_programs
from workspaces.secrets.masking import without_credentials
from workspaces.services import network

logger = logging.getLogger("handrail.gate")

ALLOWED = (Tier.LOW, Tier.MEDIUM)
MAX_TITLE = 300


class PolicyUnavailable(Exception):
    """The policy could not be evaluated, so nothing may be allowed because of it."""


@dataclass(frozen=True)
class PolicyResult:
    """A verdict and the policy version that gave it."""

    tier: str
    reasons: list
    undo: str
    title: str
    rule: str = ""
    commands: list = field(default_factory=list)
    policy: Policy | None = None
    envelope: dict | None = None  # what the kernel holds the call to, if it runs without a person
    takes_person: bool = False  # the decision point, or a policy file that can't be read, says so: no grant answers it
    policy_file: PolicyFile | None = None  # of the repository, if it has one
    approvals: dict[str, Takes] = field(default_factory=dict)  # by tier, where a policy takes more than LEAST
    escalations: dict[str, Escalation] = field(default_factory=dict)  # by tier, to whom it is passed if nobody decides

    def __post_init__(self):
        for name in ("reasons", "title", "rule", "commands", "envelope"):
            object.__setattr__(self, name, without_nul(getattr(self, name)))

    @property
    def is_allowed(self) -> bool:
        return self.tier in ALLOWED

    @property
    def needs_approval(self) -> bool:
        return not self.is_allowed and self.tier != Tier.FORBIDDEN

    @property
    def takes(self) -> Takes:
        """The people who must approve: how many different ones, and of which role and groups."""
        return least(self.approvals, self.tier)

    @property
    def quorum_fields(self) -> dict:
        """`takes` as the fields of an action."""
        takes = self.takes
        return {"quorum": takes.people, "quorum_role": takes.role, "quorum_groups": list(takes.groups)}


def judge(
    tool: str, arguments: dict, cwd: str | None, workspace, team_id, *, held: bool = False, agent: str | None = None
) -> PolicyResult:
    """Evaluate the call against the active policy. Raise PolicyUnavailable.

    `held`: it will run in the envelope of its verdict (`can_be_held`). `agent` is the name of the one that asks;
    without it each condition about agents is possible. A decision point can make the verdict stricter.
    """
    found = _by_policy(tool, arguments, cwd, workspace, team_id, held=held, agent=agent)
    return decision_point.tightened(found, decision_point.Asked(tool, workspace, team_id, agent, held))


def _by_policy(tool: str, arguments: dict, cwd, workspace, team_id, *, held: bool, agent: str | None) -> PolicyResult:
    if tool in OWN_VERBS:
        title = without_credentials(title_of(tool, arguments, workspace))[:MAX_TITLE]
        undo = "yes" if OWN_VERBS[tool].can_undo else "no"
        why = reason("high", _why_own_verb(tool, workspace))
        approvals = _approvals(team_id, workspace)
        return PolicyResult(tier=Tier.HIGH.value, reasons=[why], undo=undo, title=title, approvals=approvals)
    try:
        policy = policies.active(team_id, workspace.environment if workspace else None)
        floor, file = policies.floor(policy), policy_files.of(workspace)
        by = {"policy": policy, "floor": floor, "file": policy_files.judged_by(file)}
        for each in filter(None, by.values()):
            policies.checked(each)
        around = around_call(agent, workspace) | decision_point.context()
        if policies.asks_about("on_duty", *by.values()):
            around["on_duty"] = bool(duty.people_on_duty(team_id, clock.now()))
        verdict, away = _judged(tool, arguments, cwd, workspace, around, held=held, **by)
        reading = PolicyResult(
            tier=Tier(verdict.tier).value,
            reasons=[without_credentials(str(reason)) for reason in verdict.reasons],
            undo=verdict.undo,
            title=without_credentials(verdict.title or f"Use {tool}")[:MAX_TITLE],
            rule=(verdict.rule or "")[:500],
            commands=[line | {"reason": without_credentials(line["reason"])} for line in verdict.commands],
            policy=policy,
            envelope=verdict.envelope,
            approvals=policies.approvals(*by.values()),
            escalations=policies.escalations(*by.values()),
        )
    except workers.Late as late:
        logger.warning("no verdict on a %s call: %s", tool, late)
        raise PolicyUnavailable(str(late)) from late
    except Exception as error:
        # Broad on purpose: a policy that raises must never allow a call.
        logger.exception("no verdict on a %s call", tool)
        raise PolicyUnavailable(type(error).__name__) from error
    reading = policy_files.with_file(kept_paths.refused(reading, workspace), file, by_file=verdict.by_file)
    is_own = tool in own_questions.TOOLS
    if away and not is_own and reading.is_allowed and changes_files(tool, reading.commands):
        return replace(reading, tier=Tier.HIGH.value, reasons=[AWAY])
    return adjusted(tool, arguments, reading, workspace)


def _approvals(team_id, workspace) -> dict[str, Takes]:
    """Return who approves by tier, for a call that no policy judged; {} if the policy cannot be read."""
    policy = policies.active(team_id, workspace.environment if workspace else None)
    file = policy_files.judged_by(policy_files.of(workspace))
    try:
        return policies.approvals(policy, policies.floor(policy), file)
    except (PolicyError, workers.Late):
        logger.exception("policy %s of team %s does not say who approves", policy.number, team_id)
        return {}


def around_call(agent: str | None, workspace, at=None) -> dict:
    """Return what the conditions of a policy are asked about besides the call, as a context of approvals.policy.

    `at` is the time of the call, now by default.
    """
    found = {"environment": workspace.environment.name if workspace else "", "at": (at or clock.now()).isoformat()}
    found["labels"] = (workspace.labels or {}) if workspace else {}
    found["isolation"] = isolation.of(workspace) if workspace else "none"
    return found if agent is None else found | {"agent": agent}


def _why_own_verb(tool: str, workspace) -> str:
    is_folder = workspace.environment.capabilities.own_folder  # where each piece of what is typed asks
    if tool == "Handrail.Terminal" and not is_folder and not holds_programs(workspace):
        return "an agent opens a terminal that nothing holds, and what it types there asks nobody"
    return "an agent asked for this operation on the workspace"


def adjusted(tool: str, arguments: dict, reading: PolicyResult, workspace) -> PolicyResult:
    """Return the policy's verdict as it holds for an agent's own question, and for a call outside any workspace."""
    if tool in own_questions.TOOLS:
        return _for_a_person(tool, arguments, reading)
    return reading if workspace else _without_workspace(reading)


def _for_a_person(tool: str, arguments: dict, reading: PolicyResult) -> PolicyResult:
    """Return the verdict on an agent's question or plan: one person answers it, unless the policy forbids it."""
    if reading.tier == Tier.FORBIDDEN:
        return reading
    title, why = own_questions.title_of(tool, arguments), own_questions.REASONS[tool]
    one = {"undo": "unknown", "title": title, "envelope": None, "approvals": {}}
    return replace(reading, tier=Tier.HIGH.value, reasons=[why], **one)


def _judged(tool: str, arguments: dict, cwd: str | None, workspace, around: dict, *, held: bool, **by):
    """Return (verdict, whether the files could not be inspected), of a call that is held or not.

    Reads at the code host are run for the agent in a connected folder alone, and not without a plan of how (`context.
    code_host`): else the policy judges the call as if that class of reads were off.
    """
    if not held:
        return _verdict(tool, arguments, cwd, workspace, terms=around, **by)
    is_folder = workspace.environment.capabilities.own_folder
    terms = around | {"held": True, "hosts": network.agent_rules(workspace), "code_host": is_folder}
    verdict, away = _verdict(tool, arguments, cwd, workspace, terms=terms, **by)
    if not verdict.code_host_read:
        return verdict, away
    try:
        places = {plan["at"] for plan in code_host.plans_for(verdict.commands, workspace)}
        said = f"Reads at {', '.join(sorted(places))}, outside the box and with your credentials."
    except code_host.NotRead as why:
        verdict, away = _verdict(tool, arguments, cwd, workspace, terms=terms | {"code_host": False}, **by)
        said = f"It is not run as a read at the code host: {why}."
    return replace(verdict, reasons=[*verdict.reasons, said]), away


def _verdict(tool: str, arguments: dict, cwd: str | None, workspace, *, terms=None, **by):
    """Return (verdict, whether the files could not be inspected).

    `terms` say how the call is held, and who asks. Where there are symlinks or trusted programs, the policy is
    evaluated a second time with their targets and digests.
    """
    terms = terms or {}
    # Without a workspace no folder belongs to the agent: its cwd is only its own claim.
    root = root_of(workspace) if workspace else None
    world = by | {"cwd": cwd, "workspace_root": root, "home": home_of(workspace)}
    terms = terms | servers_for(tool, cwd, workspace)
    first = workers.classify(tool, arguments, **world, context=terms)
    context = context_for(tool, arguments, cwd, workspace, first.commands)
    if workspace and (trusted := _trusted_programs(by.get("policy"))):
        context.known.update(programs=programs_for(first.commands, cwd or root, workspace, trusted))
    if first.tier in ALLOWED:
        context.known.update(destinations_of(tool, arguments))
    if workspace and tool == "Bash":
        context.known.update(scripts_for(first.commands, cwd or root, workspace))
        context.known.update(downloads_for(first.commands, workspace))
    verdict = workers.classify(tool, arguments, **world, context=terms | context.known) if context.known else first
    return verdict, context.away


def _trusted_programs(policy) -> list[dict]:
    return policies.checked(policy)["trust"]["programs"] if policy else []


def covered(rules: list[str], tool: str, arguments: dict, cwd: str | None, workspace) -> bool:
    """Return whether these rules alone would allow the call; False when that cannot be determined."""
    try:
        verdict, away = _verdict(tool, arguments, cwd, workspace, rules=rules)
    except Exception:
        # Broad on purpose, as in `judge`: an error here leads to a question for a person.
        logger.exception("no verdict on whether a %s call is covered", tool)
        return False
    return verdict.tier == Tier.LOW and not away


def _without_workspace(reading: PolicyResult) -> PolicyResult:
    """Adjust a verdict for a call outside any workspace.

    No snapshot is taken there, so nothing can be undone but at the service of an MCP tool, and a medium call that no
    rule allows needs approval.
    """
    is_at_a_service = bool(reading.commands) and all(step.get("what") == "mcp" for step in reading.commands)
    if reading.undo in ("yes", "partly") and reading.tier != Tier.LOW and not is_at_a_service:
        reading = replace(reading, undo="no")
    if reading.tier == Tier.MEDIUM and not reading.rule:
        why = reason("high", "it runs outside any workspace, so no snapshot is taken first")
        return replace(reading, tier=Tier.HIGH.value, reasons=[why])
    return reading


def can_be_held(mode: str, tool: str, workspace) -> bool:
    """Return whether the kernel can hold the call to an envelope: the runner carries it out, where that is possible."""
    return mode == BROKER and tool == "Bash" and workspace is not None and holds_programs(workspace)


def judge_or_ask(
    tool: str, arguments: dict, cwd: str | None, workspace, team_id, *, held: bool = False, agent: str | None = None
) -> PolicyResult:
    """Return the verdict; if the policy cannot be evaluated, one that asks a person and says so."""
    try:
        return judge(tool, arguments, cwd, workspace, team_id, held=held, agent=agent)
    except PolicyUnavailable as error:
        why = reason("high", f"the policy could not be evaluated ({error})")
        known = {"title": f"Use {tool}"[:MAX_TITLE], "approvals": _approvals(team_id, workspace)}
        return PolicyResult(tier=Tier.HIGH.value, reasons=[why], undo="unknown", **known)


def judge_again(action: Action) -> PolicyResult:
    """Evaluate the current revision against the policy that is active now. Raise PolicyUnavailable."""
    call = content(action)
    held = action.envelope is not None or can_be_held(action.mode, call["tool"], action.workspace)
    by = {"held": held, "agent": action.agent.name}
    return judge(call["tool"], call["arguments"], call["cwd"], action.workspace, action.team_id, **by)


def with_all(actions, *, bodies=True):
    """Load the actions with all that a response about them needs, in a constant number of queries.

    Without `bodies` the canonical bytes of the revisions are deferred.
    """
    revisions = Revision.objects.all() if bodies else Revision.objects.defer("canonical")
    return actions.select_related(
        "team",
        "agent",
        "agent__owner",
        "workspace",
        "workspace__environment",
        "policy",
        "operation",
        "snapshot_before",
        "asked_snapshot",
        "asked_operation",
        "rehearsal",
        "grant__by",
        "open_question__user",
        "asked_of",
        "way_back",
    ).prefetch_related(Prefetch("revisions", revisions), Prefetch("decisions", Decision.objects.select_related("user")))


def remember(action: Action, revision: Revision):
    """Keep the only revision of an action that nobody has decided with it, so that no query looks for what it has."""
    for name, rows in (("revisions", [revision]), ("decisions", [])):
        known = getattr(action, name).all()
        known._result_cache, known._prefetch_done = rows, True
        action.__dict__.setdefault("_prefetched_objects_cache", {})[name] = known


def current(action: Action) -> Revision:
    """Return the action's current revision."""
    return next((r for r in action.revisions.all() if r.number == action.revision), None) or action.revisions.get(
        number=action.revision
    )


def was_edited(action: Action) -> bool:
    """Return whether a person edited the call. A later revision may also come from a script that changed."""
    return any(revision.by.get("type") == "person" for revision in action.revisions.all())


def content(action: Action) -> dict:
    """Return {tool, arguments, cwd, workspace} of the current revision, and {files} if it binds any."""
    return parsed(current(action).canonical)

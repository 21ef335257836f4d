"""The policies of a team over HTTP: what is in force, versions, differences, effects; and how often they ask."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Query, Router, Schema, Status
from pydantic import Field

from approvals.evaluation import policies, workers
from approvals.evaluation.calls import sha256
from approvals.models import Action, Policy
from approvals.policy import TIERS, PolicyError
from approvals.policy.conditions import ISOLATION, UNDONE
from approvals.policy.difference import Shape, conditions_of
from approvals.policy.people import LEAST, least
from approvals.reports.ask_rate import ask_rate
from approvals.reports.policy_changes import difference, history, hits
from approvals.reports.policy_changes import scopes as policy_scopes
from approvals.reports.policy_changes.scopes import Scope
from approvals.reports.policy_changes.unknown_names import warnings_of
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import not_allowed, not_found, unavailable
from dashboard.web.api_base import PROBLEMS
from dashboard.workers.pool import Late
from workspaces.api.schemas import Strict

router = Router(tags=["policy"])
Name = Annotated[str, Query(description="an environment, or a connected folder; without it the team's policy")]


class AsksOut(Schema):
    days: int = Field(description="the length of the period, which ends now")
    calls: int = Field(description="actions that agents asked for")
    asked: int = Field(description="those that needed a person's approval; neither auto-approved nor forbidden")
    active_hours: int = Field(description="hours of the clock, in UTC, with at least one call")
    per_100_calls: float
    per_active_hour: float


@router.get("/policy/asks", response={200: AsksOut} | PROBLEMS)
def asks(request):
    """How often people were asked in the last seven days, of the actions that the caller may see."""
    return ask_rate(Action.objects.visible_to(request.auth), clock.now())


class VersionOut(Schema):
    number: int
    active: bool
    sha256: str
    by: str = Field(description="a person, or Handrail for the first version of a team")
    comment: str
    saved_at: datetime


class RuleOut(Schema):
    tier: Literal[TIERS]
    rule: str
    hits: int = Field(description=f"calls of the last {hits.DAYS} days that it decided")
    shadowed_by: str | None = Field(description="an earlier rule that takes all of its calls, so that it never decides")
    shadowed_in: str | None = Field(description="the list of that rule; team: … if it is in the team's policy")


class BlockOut(Schema):
    conditions: dict[str, list[str]]
    rules: dict[str, list[str]] = Field(description="by tier, as they are written")
    labels: dict[str, list[str]] = Field(description="by tier, as `rule` of an action names them")
    mode: str
    is_floor: bool


class PolicyOut(Schema):
    environment: str | None = Field(description="null: the team's policy")
    own: bool = Field(description="false: an environment that follows the team's policy")
    version: VersionOut | None = Field(description="null: the default, which is saved with the first call")


class WholePolicyOut(PolicyOut):
    text: str
    problem: str | None = Field(description="why the text can't be read; everything needs approval then")
    rules: list[RuleOut]
    blocks: list[BlockOut] = Field(description="rules with conditions, those of the floor last")
    targets: dict[str, list[str]]
    warnings: list[str] = Field(description="rules that never decide, and names that the team does not have")


class PoliciesOut(Schema):
    policies: list[PolicyOut]


class VersionsOut(Schema):
    versions: list[VersionOut] = Field(description="newest first")


class WholeVersionOut(VersionOut):
    text: str


class SavedVersionOut(WholeVersionOut):
    warnings: list[str] = Field(description="rules that never decide, and names that the team does not have")


class DifferenceOut(Schema):
    from_version: int
    to_version: int
    additions: int
    deletions: int
    unified: str = Field(description="the difference as a patch of policy.toml")


class NewText(Strict):
    text: Annotated[str, Field(max_length=200_000)]
    environment: Annotated[str, Field(max_length=100)] | None = Field(None, description="null: the team's policy")


class NewPolicy(NewText):
    base: Annotated[int, Field(ge=0, le=10**8)] = Field(description="number of the version that was edited; 0: none")
    comment: Annotated[str, Field(max_length=policies.MAX_COMMENT)] = ""


class TrialContext(Strict):
    """What the conditions of a policy are asked about; what is left out may meet them, so rules that ask apply."""

    agent: Annotated[str, Field(max_length=100)] | None = None
    environment: Annotated[str, Field(max_length=100)] | None = None
    isolation: Literal[ISOLATION] | None = Field(None, description="of the workspace")
    labels: dict[str, str] | None = None
    targets: list[str] | None = Field(None, description="targets that a call means which names none")
    branch: Annotated[str, Field(max_length=300)] | None = None
    at: datetime | None = None
    on_duty: bool | None = Field(None, description="whether somebody who may approve is on duty")
    undo: Literal[UNDONE] | None = Field(None, description="whether a snapshot, a call elsewhere or nothing undoes it")
    held: bool = False


class Trial(Strict):
    tool: Annotated[str, Field(max_length=200)]
    input: dict
    context: TrialContext = TrialContext()
    text: Annotated[str, Field(max_length=200_000)] | None = Field(None, description="null: the policy in force")
    environment: Annotated[str, Field(max_length=100)] | None = Field(None, description="null: the team's policy")


class TakesOut(Schema):
    people: int
    role: str = Field(description="of one of them at least; empty for any")
    groups: list[str] = Field(description="of each of which one of them is")


class TriedOut(Schema):
    tier: Literal[TIERS]
    reasons: list[str]
    rule: str | None
    undo: str
    title: str
    targets: dict[str, Literal["certain", "possible"]] = Field(description="those of the policy that it acts on")
    takes: TakesOut | None = Field(description="the people who would have to approve it; null if it asks nobody")


class GoBack(Strict):
    environment: Annotated[str, Field(max_length=100)] | None = None


class ExampleOut(Schema):
    tool: str
    input: dict


class ShapeOut(Schema):
    shape: str = Field(description="a rule, or what calls of this class do and where")
    before: Literal[TIERS]
    after: Literal[TIERS]
    rule: str = Field(description="the rule that decides, if one does")
    where: dict[str, list] = Field(
        description="agent, environment, labels, at and held of the calls, where not all of these differ"
    )
    examples: list[ExampleOut]


class PolicyDifferenceOut(Schema):
    newly_allowed: list[ShapeOut] = Field(
        description="classes of calls that run without a person only with this text, or that its table approvals lets"
        " fewer people approve; before and after of these are the same tier"
    )
    easier: list[ShapeOut] = Field(description="those that need fewer people, or are no longer forbidden")
    stricter: list[ShapeOut]
    cases: int = Field(description="representative calls")
    judged: int = Field(description="those that were compared")
    cut_off: bool


def scope_or_404(request, environment: str | None) -> Scope:
    """Return what the policy applies to. Problem 403 for an agent, 404."""
    if not request.auth.is_person:
        raise not_allowed("Only people can read the policy.")
    found = policy_scopes.find(Team.objects.get(pk=request.auth.team_ids[0]), environment)
    if found is None:
        raise not_found("environment")
    return found


@router.get("/policies", response={200: PoliciesOut} | PROBLEMS)
def list_policies(request):
    """List what has a policy: the team, its environments and connected folders. For people."""
    scope = scope_or_404(request, None)
    return {"policies": [_policy(each) for each in policy_scopes.scopes_of(scope.team)]}


@router.get("/policies/current", response={200: WholePolicyOut} | PROBLEMS)
def read_policy(request, environment: Name = ""):
    """Read the policy in force, its rules, how often each decided, and which never do. For people."""
    scope = scope_or_404(request, environment)
    return _policy(scope) | {"text": scope.policy.text} | _rules(scope)


@router.post("/policies", response={201: SavedVersionOut} | PROBLEMS)
def save_policy(request, body: NewPolicy):
    """Save the next version of a policy, active at once. 409 if another one than `base` is active."""
    must_write(request)
    scope = scope_or_404(request, body.environment)
    where = {"team": scope.team, "environment": scope.row, "base": body.base}
    saved = policies.save(body.text, caller=request.auth, comment=body.comment, **where)
    return Status(201, _whole(saved) | {"warnings": warnings_of(scope.team, policies.checked(saved))})


@router.post("/policies/diff", response={200: PolicyDifferenceOut} | PROBLEMS)
def compare_policies(request, body: NewText):
    """Say which classes of calls a text would newly let run, of all calls and not only past ones.

    The text and the policy in force are compared by their rules, targets and conditions, with calls that stand for each
    class of both. Nothing is saved.
    """
    must_write(request)
    return difference_out(difference.of_text(scope_or_404(request, body.environment), body.text))


def difference_out(found: difference.Difference) -> dict:
    """Return a difference as PolicyDifferenceOut has it."""
    groups = {name: [_shape(each, found) for each in shapes] for name, shapes in found.groups.items()}
    return groups | {"cases": found.of, "judged": found.judged, "cut_off": found.is_cut}


def _shape(shape: Shape, found: difference.Difference) -> dict:
    same = {name: getattr(shape, name) for name in ("shape", "before", "after", "rule", "examples")}
    return same | {"where": conditions_of(shape, found.contexts)}


@router.post("/policies/try", response={200: TriedOut} | PROBLEMS)
def try_call(request, body: Trial):
    """Say what a policy decides about one call, by the text that is given or the one in force. Nothing is recorded."""
    must_write(request)
    scope = scope_or_404(request, body.environment)
    policy = scope.policy
    if body.text is not None:
        policies.require_valid(body.text)
        policy = Policy(
            team=scope.team, environment=scope.environment, text=body.text, sha256=sha256(body.text.encode())
        )
    world = {
        "cwd": "/workspace",
        "workspace_root": "/workspace",
        "context": body.context.model_dump(mode="json", exclude_none=True),
    }
    floor = policies.floor(policy)
    try:
        verdict = workers.classify(body.tool, body.input, policy=policy, floor=floor, **world)
        takes = least(policies.approvals(policy, floor), verdict.tier) if verdict.tier in LEAST else None
    except Late as late:
        raise unavailable(f"The policy could not be evaluated: {late}.") from None
    names = ("tier", "reasons", "rule", "undo", "title", "targets")
    return {name: getattr(verdict, name) for name in names} | {"takes": takes and takes.as_dict}


@router.get("/policies/versions", response={200: VersionsOut} | PROBLEMS)
def list_versions(request, environment: Name = ""):
    """List the versions of a policy: who saved each, when and why. For people."""
    scope = scope_or_404(request, environment)
    return {"versions": [_version(each) for each in scope.versions.defer("text").select_related("by")[:500]]}


@router.get("/policies/versions/{n}", response={200: WholeVersionOut} | PROBLEMS)
def read_version(request, n: int, environment: Name = ""):
    """Read a version of a policy. For people."""
    return _whole(_version_or_404(scope_or_404(request, environment), n))


@router.get("/policies/versions/{n}/difference", response={200: DifferenceOut} | PROBLEMS)
def compare_versions(
    request, n: int, to: int = Query(None, description="a version; without it the newest"), environment: Name = ""
):
    """Return the difference from a version to another one. For people."""
    scope = scope_or_404(request, environment)
    old = _version_or_404(scope, n)
    new = old if to == n else _version_or_404(scope, to) if to is not None else scope.versions.first()
    difference = history.difference(old, new)
    counts = {"additions": difference.additions, "deletions": difference.deletions}
    return {"from_version": old.number, "to_version": new.number, "unified": history.patch(old, new)} | counts


@router.post("/policies/versions/{n}/restore", response={201: WholeVersionOut} | PROBLEMS)
def go_back(request, n: int, body: GoBack):
    """Save the text of an old version as the next one, active at once."""
    must_write(request)
    scope = scope_or_404(request, body.environment)
    return Status(201, _whole(history.go_back(scope, _version_or_404(scope, n), caller=request.auth)))


def must_write(request):
    if not request.auth.can("write_policy", request.auth.team_ids[0]):
        raise not_allowed("Only a lead or admin can change the policy.")


def _version_or_404(scope: Scope, number: int) -> Policy:
    if not 0 <= number < 10**9:
        raise not_found("version of this policy")
    return history.find(scope, number)


def _policy(scope: Scope) -> dict:
    saved = scope.policy
    own = scope.environment is None or scope.own is not None
    return {"environment": scope.name, "own": own, "version": _version(saved) if saved.number else None}


def _version(policy: Policy) -> dict:
    by = policy.by.get_username() if policy.by else "Handrail"
    same = {name: getattr(policy, name) for name in ("number", "active", "sha256", "comment")}
    return same | {"by": by, "saved_at": policy.created_at}


def _whole(policy: Policy) -> dict:
    return _version(policy) | {"text": policy.text}


def _rules(scope: Scope) -> dict:
    """Return {problem, rules} of the policy in force, in the order in which its lists are read."""
    policy = scope.policy
    try:
        found = policies.checked(policy)
        lists = found["rules"]
        shadowed = {(each["tier"], each["rule"]): each for each in policies.shadowed(policy)}
    except (PolicyError, Late) as error:
        return {"problem": str(error), "rules": [], "blocks": [], "targets": {}, "warnings": []}
    counts = hits.counted(scope, clock.now())
    rows = [(tier, rule) for tier in reversed(TIERS) for rule in lists.get(tier, [])]
    about = {"blocks": found["blocks"], "targets": found["targets"], "warnings": warnings_of(scope.team, found)}
    return {"problem": None, "rules": [_rule(*row, counts, shadowed.get(row)) for row in rows]} | about


def _rule(tier: str, rule: str, counts: dict, shadowed: dict | None) -> dict:
    by = {"shadowed_by": None, "shadowed_in": None}
    if shadowed:
        where = f"team: {shadowed['by_tier']}" if shadowed["by_team"] else shadowed["by_tier"]
        by = {"shadowed_by": shadowed["by"], "shadowed_in": where}
    return {"tier": tier, "rule": rule, "hits": counts.get(rule, 0)} | by

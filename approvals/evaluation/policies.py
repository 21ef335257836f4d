"""The active policy for a team or an environment, and saving its next version.

A new version takes effect at once, also for approvals that are not yet used. When such an approval is consumed, it is
revoked if the new version forbids the call or takes more approvals than it has; a person's other approvals stay valid
(approvals.actions.gate). A call that only the old version allowed needs a new answer.
"""

import hashlib
import json
import re
import tomllib
from functools import lru_cache

from django.db import IntegrityError, transaction
from django.db.models import CharField, F, Q, UUIDField

from approvals.evaluation import approver_groups, workers
from approvals.models import Policy, PolicyFile
from approvals.policy import PolicyError, default_policy, load_policy
from approvals.policy.escalation import Escalation, read_escalations
from approvals.policy.people import LEAST, ROLES, Takes, read_approvals, stricter
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Actor, Event, Team
from dashboard.people import sole_approver
from dashboard.problems import conflict, invalid, not_allowed

MODE = "irreversible"  # what a new team starts with
MAX_COMMENT = Policy._meta.get_field("comment").max_length


def active(team_id, environment=None) -> Policy:
    """Return the active policy: the environment's own (of any of its versions), else the team's.

    A team without a policy gets the default one.
    """
    name = environment.name if environment else None
    found = _ACTIVE.rows(team=team_id, name=name) if environment else _own_first(team_id, name)
    return next(iter(found), None) or _first(team_id)


def _own_first(team, name):
    either = Policy.objects.filter(Q(environment=None) | Q(environment__name=name), team=team, active=True)
    return either.order_by(F("environment__version").desc(nulls_last=True)).select_related("environment")[:1]


_ACTIVE = Prepared(lambda: _own_first(Slot("team", UUIDField()), Slot("name", CharField())))


def own(team_id, name: str) -> Policy | None:
    """Return the active policy for environments of this name, if there is one."""
    of_name = Policy.objects.filter(team=team_id, active=True, environment__name=name)
    return of_name.select_related("environment").order_by("-environment__version").first()


def floor(policy: Policy) -> Policy | None:
    """Return the team's policy if `policy` is an environment's own: what it forbids is forbidden there as well."""
    return _of_team(policy.team_id) if policy.environment_id else None


def for_display(team_id) -> Policy:
    """Return the team's policy for display; for a team without one the default policy as version 0, unsaved."""
    text = default_policy(MODE)
    return _of_team(team_id) or Policy(team_id=team_id, number=0, text=text, sha256=_sha256(text), active=True)


def _of_team(team_id) -> Policy | None:
    return Policy.objects.filter(team=team_id, active=True, environment=None).first()


def compiled(policy: Policy):
    """Load the rules of a stored version in this process, for an operator's command. PolicyError if they don't load."""
    return load_policy(policy.text)


def with_rules(text: str, tier: str, rules: list[str]) -> str:
    """Return a policy's text with these rules at the head of a tier's list; unchanged where that cannot be done."""
    lines = "".join(f"  {json.dumps(rule, ensure_ascii=False)},\n" for rule in rules)
    # pattern: a tier is one of four words, and begins the line
    if re.search(rf"(?m)^{tier}\s*=\s*\[", text):
        # pattern: as above
        added = re.sub(rf"(?m)^({tier}\s*=\s*\[)[ \t]*\n?", lambda found: f"{found[1]}\n{lines}", text, count=1)
    else:
        added = f"{tier} = [\n{lines}]\n{text}"
    try:
        before, after = tomllib.loads(text), tomllib.loads(added)
    except tomllib.TOMLDecodeError:
        return text
    return added if after == before | {tier: [*rules, *before.get(tier, [])]} else text


def checked(policy: Policy | PolicyFile) -> dict:
    """Return judges.check of a stored version. PolicyError if it does not load; judges.Late."""
    return _checked(policy.sha256, policy.text)


def depends_on_time(*saved: Policy | PolicyFile | None) -> bool:
    """Return whether one of these judges a call by the hour or by who is on duty; also if it cannot be read."""
    try:
        return any(asks_about(condition, *saved) for condition in ("hours", "on_duty"))
    except (PolicyError, workers.Late):
        return True


def asks_about(condition: str, *saved: Policy | PolicyFile | None) -> bool:
    """Return whether a block of one of these has the condition. PolicyError; workers.Late."""
    return any(condition in block["conditions"] for each in filter(None, saved) for block in checked(each)["blocks"])


def approvals(*saved: Policy | PolicyFile | None) -> dict[str, Takes]:
    """Return {tier: who approves} that meets each of these policies. PolicyError; workers.Late."""
    found: dict[str, Takes] = {}
    for policy in filter(None, saved):
        found = stricter(found, {tier: Takes(**said) for tier, said in checked(policy)["approvals"].items()})
    return found


def escalations(*saved: Policy | PolicyFile | None) -> dict[str, Escalation]:
    """Return {tier: Escalation} of these; the first one that has it for a tier counts. PolicyError; workers.Late."""
    found: dict[str, Escalation] = {}
    for policy in filter(None, saved):
        found = {tier: Escalation(**each) for tier, each in checked(policy)["escalate"].items()} | found
    return found


def rehearses(policy: Policy | None, tier: str) -> bool:
    """Return whether commands of this tier are tried on a copy of the files as soon as they wait for a person."""
    return policy is not None and tier in checked(policy)["rehearse"]


@lru_cache(maxsize=64)
def _checked(sha256: str, text: str, below: str = "") -> dict:
    found = workers.check(text, below)
    if "problem" in found:
        raise PolicyError(found["problem"])
    return found


def versions(team_id, name: str | None = None):
    """Return the versions of a team's policy, or of the policy of its environments of this name, newest first."""
    where = {"environment__name": name} if name else {"environment": None}
    return Policy.objects.filter(team=team_id, **where).order_by("-number", "-created_at")


def shadowed(policy: Policy) -> list[dict]:
    """Return {rule, tier, by, by_tier, by_team} of each rule that never decides. PolicyError; judges.Late."""
    below = floor(policy)
    found = _checked(policy.sha256, policy.text, below.text if below else "")
    return found["shadowed"]


def save(text: str, *, caller, team, environment=None, base: int | None = None, comment: str = "") -> Policy:
    """Save this text as the next version, active at once.

    `base` is the number of the version that was edited: Problem 409 if another one was saved meanwhile. Problem 403;
    422 if the text is invalid, a rule can never match or its tests fail.
    """
    if not caller.can("write_policy", team):
        raise not_allowed("Only a lead or admin can change the policy.")
    require_valid(text)
    _require_people(text, team)
    if len(comment) > MAX_COMMENT:
        raise invalid(f"A comment can have at most {MAX_COMMENT} characters.")
    who = {"actor": caller.actor, "user": caller.user}
    return add(team.pk, text, environment=environment, base=base, comment=comment, **who)


def require_valid(text: str):
    """Raise Problem 422 if the text is no policy, a rule in it can never match or its tests fail."""
    try:
        found = workers.check(text)
    except workers.Late as late:
        raise invalid(f"The policy was not saved: {late}. Remove some of its tests.") from None
    for problem in (found.get("problem"), *found.get("never", ())):
        if problem:
            raise invalid(problem)


def _require_people(text: str, team):
    """Raise Problem 422 if the text takes more people than may approve in the team, or a role that none of them has."""
    people = sole_approver.approvers(team)
    count, roles = people.count(), set(people.values_list("role", flat=True))
    for tier, to in read_escalations(tomllib.loads(text).get("escalate", {})).items():
        if to.group and to.group not in approver_groups.usable(team):
            raise invalid(f"escalate.{tier} names the group {to.group}, in which nobody of {team} may approve.")
    for tier, takes in read_approvals(tomllib.loads(text).get("approvals", {})).items():
        if takes.people > max(LEAST[tier], count):
            raise invalid(f"approvals.{tier} takes {takes.people} people, and {count} may approve in {team}.")
        if unknown := [name for name in takes.groups if name not in approver_groups.usable(team)]:
            raise invalid(f"approvals.{tier} names the group {unknown[0]}, in which nobody of {team} may approve.")
        if takes.role and not roles & set(ROLES[ROLES.index(takes.role) :]):
            raise invalid(f"approvals.{tier} takes a person who is {takes.role}, and nobody in {team} is.")


def _first(team_id) -> Policy:
    try:
        return add(team_id, default_policy(MODE), actor=Actor.system("Handrail"), only_when_none=True)
    except IntegrityError:  # another process made it meanwhile
        return Policy.objects.get(team=team_id, environment=None, active=True)


def add(
    team_id,
    text,
    *,
    actor,
    environment=None,
    user=None,
    only_when_none=False,
    base: int | None = None,
    comment: str = "",
) -> Policy:
    with transaction.atomic():
        team = Team.objects.locked().get(pk=team_id)
        saved = versions(team_id, environment and environment.name)
        known = saved.filter(active=True).first()
        if only_when_none and known:
            return known
        if base is not None and base not in _bases(known):
            meanwhile = f"{known.by or 'Handrail'} saved version {known.number}" if known else "The policy was removed"
            raise conflict(f"{meanwhile} while you edited version {base}. Nothing was saved.")
        latest = saved.values_list("number", flat=True).first() or 0
        saved.filter(active=True).update(active=False)
        policy = Policy.objects.create(
            team=team,
            environment=environment,
            number=latest + 1,
            text=text,
            sha256=_sha256(text),
            by=user,
            comment=comment,
            active=True,
        )
        data = {"number": policy.number, "sha256": policy.sha256, "environment": environment and environment.name}
        data |= {"comment": comment} if comment else {}
        Event.objects.record(team, actor=actor, verb="policy.saved", subject=policy, data=data)
    return policy


def _bases(known: Policy | None) -> tuple[int, ...]:
    """Return the version numbers that an edit replacing `known` may be based on.

    A team's default policy was shown as version 0 before it was saved as version 1.
    """
    if known is None:
        return (0,)
    return (0, 1) if known.number == 1 and known.by_id is None and known.environment_id is None else (known.number,)


@transaction.atomic
def retire(environment, *, actor: Actor):
    """Deactivate the policies of this environment's name, so that environments of this name use the team's."""
    Team.objects.take_turn(environment.team_id)
    for policy in Policy.objects.filter(environment__team=environment.team, environment__name=environment.name):
        if Policy.objects.filter(pk=policy.pk, active=True).update(active=False):
            data = {"number": policy.number, "environment": environment.name}
            Event.objects.record(environment.team, actor=actor, verb="policy.retired", subject=policy, data=data)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

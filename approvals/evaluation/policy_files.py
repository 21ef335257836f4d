"""The policy file of a workspace's repository: read for each call, and adopted by leads by its digest.

It can only tighten the team's policy, and loosen it within the floor once a lead adopted that very content. A file that
can't be read or is no policy asks about everything.
"""

import hashlib
from dataclasses import replace

from django.db import transaction

from approvals.evaluation.policies import checked
from approvals.models import Action, PolicyFile, Tier
from approvals.policy import PolicyError
from approvals.policy.repository_file import PATH
from approvals.policy.verdict import reason
from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import Problem, conflict, not_allowed
from workspaces.operations import runner_client
from workspaces.services.notes.lessons import repository_of

RUNNER_TIMEOUT = 1.5
ALONE = "environment:"  # before the name of an environment whose workspaces are from no repository
MAX_REPOSITORY = PolicyFile._meta.get_field("repository").max_length


def of(workspace) -> PolicyFile | None:
    """Return the file that judges calls of a workspace now, None if there is none.

    While the runner does not answer it is that of the workspace's last call.
    """
    if workspace is None:
        return None
    try:
        found = runner_client.ask("POST", workspace, "policy-file", body=b"{}", timeout=RUNNER_TIMEOUT)
    except Problem:
        return _last(workspace)
    return _row(workspace, found) if found else None


def _last(workspace) -> PolicyFile | None:
    calls = Action.objects.filter(workspace=workspace.pk).select_related("policy_file__adopted_by")
    return next((action.policy_file for action in calls.order_by("-created_at")[:1]), None)


def _row(workspace, found: dict) -> PolicyFile:
    """Return the row of this content, made when it is first seen."""
    text, problem = found.get("text", ""), found.get("problem", "")
    if "\0" in text:
        text, problem = "", "it holds a NUL"
    sha256 = "" if problem else hashlib.sha256(text.encode()).hexdigest()
    key = {"team_id": workspace.team_id, "repository": repository_key(workspace), "sha256": sha256}
    known = PolicyFile.objects.select_related("adopted_by").filter(**key).first()
    if known is None:
        problem = problem or _problem_of(sha256, text)
        known = _first_seen(workspace, key, {"text": text, "problem": problem})
    if problem and known.problem != problem:
        PolicyFile.objects.filter(pk=known.pk).update(problem=problem)
        known.problem = problem
    return known


def _first_seen(workspace, key: dict, content: dict) -> PolicyFile:
    with Team.objects.turn(workspace.team_id):
        more = content | {"workspace": workspace, "seen_at": clock.now()}
        found, is_new = PolicyFile.objects.get_or_create(**key, defaults=more)
        if is_new:
            _record(found, "policy.file_seen", Actor.system("Handrail"), workspace=workspace.pk)
    return found


def repository_key(workspace) -> str:
    """Return what its policy file is adopted for: the repository by name, or the environment if it is from none."""
    return (repository_of(workspace) or f"{ALONE}{workspace.environment.name}")[:MAX_REPOSITORY]


def _problem_of(sha256: str, text: str) -> str:
    try:
        checked(PolicyFile(sha256=sha256, text=text))
    except PolicyError as error:
        return str(error).rstrip(".")
    return ""


# Judging -------------------------------------------------------------------------------------------------------------


def judged_by(file: PolicyFile | None) -> PolicyFile | None:
    """Return the file for the engine: not one that is no policy."""
    return None if file is None or file.problem else file


def with_file(found, file: PolicyFile | None, *, by_file: bool):
    """Return the verdict (judge.PolicyResult) with what the file has to do with it, and stricter if it can't be read.

    `by_file`: the file made it stricter.
    """
    if file is None:
        return found
    found = replace(found, policy_file=file)
    if file.problem:
        return _asking(found, file)
    if file.is_adopted:
        by = file.adopted_by.get_username() if file.adopted_by else "a lead"
        why = f"Judged with the repository's policy file {PATH} (sha256 {file.short}), which {by} adopted."
    elif by_file:
        why = f"The repository's policy file {PATH} (sha256 {file.short}) makes this stricter."
    else:
        return found
    return replace(found, reasons=[*found.reasons, why])


def _asking(found, file: PolicyFile):
    why = reason("high", f"the repository's policy file {PATH} (sha256 {file.short}) can't be read: {file.problem}")
    if not found.is_allowed:
        return replace(found, reasons=[*found.reasons, why], takes_person=True)
    return replace(found, tier=Tier.HIGH.value, reasons=[why], envelope=None, takes_person=True)


def same_as_judged(action: Action, file: PolicyFile | None) -> bool:
    """Return whether the file is the one that the action was judged with, and as it was adopted then or not."""
    if file is None or action.policy_file_id is None:
        return file is None and action.policy_file_id is None
    is_as_then = file.changed_at is None or file.changed_at <= action.created_at
    return file.pk == action.policy_file_id and is_as_then


# Adopting ------------------------------------------------------------------------------------------------------------


def adopt(file: PolicyFile, sha256: str, *, caller) -> PolicyFile:
    """Let this content loosen the team's policy, within its floor. Problem 403; 409 if it can't be, or is another."""
    _require_lead(file, caller)
    if file.problem:
        raise conflict(f"This file can't be adopted: {file.problem}.")
    if file.sha256 != sha256:
        raise conflict("This is not the content that you looked at. Nothing was adopted.")
    return _change(file, True, "policy.file_adopted", caller)


def let_go(file: PolicyFile, *, caller) -> PolicyFile:
    """End that the file may loosen the team's policy; it tightens it from now on. Problem 403."""
    _require_lead(file, caller)
    return _change(file, False, "policy.file_let_go", caller)


def _require_lead(file: PolicyFile, caller):
    if not caller.is_person or not caller.can("write_policy", file.team_id):
        raise not_allowed("Only a lead or admin can adopt a policy file.")


@transaction.atomic
def _change(file: PolicyFile, adopted: bool, verb: str, caller) -> PolicyFile:
    Team.objects.take_turn(file.team_id)
    fields = {"is_adopted": adopted, "adopted_by": caller.user if adopted else None, "changed_at": clock.now()}
    if PolicyFile.objects.filter(pk=file.pk, is_adopted=not adopted).update(**fields):
        _record(file, verb, caller.actor)
    file.refresh_from_db()
    return file


def _record(file: PolicyFile, verb: str, by: Actor, **more):
    data = {"repository": file.repository, "sha256": file.sha256}
    Event.objects.record(file.team_id, actor=by, verb=verb, subject=file, data=data, **more)


# Reading -------------------------------------------------------------------------------------------------------------


def of_team(team_id):
    """Return the files of a team that were seen, the newest first."""
    return PolicyFile.objects.filter(team=team_id).select_related("workspace", "adopted_by").order_by("-seen_at")


def never_matching(file: PolicyFile) -> list[str]:
    """Return a sentence for each rule of the file that can never match. Late if that takes too long."""
    return [] if file.problem else checked(file)["never"]

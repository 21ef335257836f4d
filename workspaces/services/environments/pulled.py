"""An image that an environment names by a tag: a lead lets its registry resolve it to a digest, and the engine pull it.

The work is an operation without a workspace (runner/operations/pull_image.py), one at a time for a team. Once the image
is there, the environment's next version names it by its digest.
"""

from django.db import transaction

from dashboard.models import Actor, Event
from dashboard.problems import Problem, conflict
from workspaces import operations
from workspaces.models import Environment, Operation
from workspaces.provisioning import images
from workspaces.services.environments.versions import newest_of, save

KIND = "pull_image"


def may_be_pulled(environment: Environment) -> bool:
    return images.may_be_pulled(environment.driver, environment.image)


def ask(environment: Environment, *, by: Actor) -> Operation:
    """Request it for the newest version, or return the operation that does it already. Problem 409."""
    latest = newest_of(environment)
    if not may_be_pulled(latest):
        raise conflict(f"{latest.name} names no image by a tag, so there is nothing to resolve and pull.")
    with transaction.atomic():
        args = {"environment": str(latest.pk), "image": latest.image}
        operation = operations.submit_for_team(KIND, team=latest.team, args=args, by=by)
        if operation is None:
            under_way = Operation.objects.open().filter(team=latest.team_id, kind=KIND).first()
            if under_way is None or under_way.args != args:
                raise conflict("An image of another environment is being pulled. Try again when it is there.")
            return under_way
        data = {"name": latest.name, "image": latest.image}
        Event.objects.record(latest.team, actor=by, verb="environment.image_asked", subject=latest, data=data)
    return operation


def last(environment: Environment) -> Operation | None:
    """Return the newest operation for the image that this version names."""
    of_team = Operation.objects.filter(team=environment.team_id, kind=KIND).order_by("-created_at")[:20]
    args = {"environment": str(environment.pk), "image": environment.image}
    return next((operation for operation in of_team if operation.args == args), None)


def finish(operation: Operation, outcome: dict, *, by: Actor):
    """Save the environment with the digest, unless it was changed meanwhile. In the transaction that settles it."""
    environment = Environment.objects.filter(pk=operation.args["environment"]).first()
    if environment is None:
        return
    data = {"name": environment.name, "image": operation.args["image"]}
    if outcome["ok"]:
        data |= {"pulled": outcome["image"]}
        if newest_of(environment) == environment:
            try:
                with transaction.atomic():
                    fields = {"image": outcome["image"], "minimum_isolation": environment.minimum_isolation}
                    save(environment.team, environment.name, fields, base=environment, by=by)
            except Problem as problem:
                data |= {"not_saved": problem.detail}
    else:
        data |= {"reason": outcome["reason"][:1000]}
    verb = "environment.image_pulled" if outcome["ok"] else "environment.image_failed"
    Event.objects.record(environment.team, actor=by, verb=verb, subject=environment, data=data)

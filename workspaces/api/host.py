"""What there is to make workspaces from."""

from ninja import Router, Status

from dashboard.contract import PROBLEMS
from workspaces.models import Environment, Runner

router = Router(tags=["environments"])


@router.get("/environments", response={200: dict} | PROBLEMS, tags=["environments"])
def environments(request):
    """The newest version of each environment of the team."""
    rows = Environment.objects.visible_to(request.auth).order_by("name", "-version")
    newest = {}
    for environment in rows:
        newest.setdefault(environment.name, environment)
    fields = ("name", "version", "driver", "image", "repository", "ref", "checks", "limits", "minimum_isolation")
    return Status(200, {"environments": [{name: getattr(e, name) for name in fields} for e in newest.values()]})


@router.get("/drivers", response={200: dict} | PROBLEMS, tags=["environments"])
def drivers(request):
    """What the hosts can do, and why not."""
    return Status(
        200,
        {
            "drivers": [
                {"host": runner.host, "name": name, **probe}
                for runner in Runner.objects.order_by("host")
                for name, probe in sorted(runner.capabilities.items())
            ]
        },
    )

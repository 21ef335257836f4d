"""Install an agent's program on a team's host because a lead asked for it, in the version that Handrail is tried with.

The work is an operation without a workspace (runner/operations/install_agent.py), one at a time for a team.
`manage.py agents install` does the same on the host, in any version.
"""

from django.db import transaction

from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict
from workspaces import operations
from workspaces.models import Operation
from workspaces.provisioning.agent_programs import Program

KIND = "install_agent"
MAX_READ = 50  # of the team's newest installations, among which one of a program is looked for


def ask(team: Team, program: Program, *, by: Actor) -> Operation:
    """Request it, or return the operation that does it already. Problem 409 while another program is installed."""
    with transaction.atomic():
        args = {"program": program.named}
        operation = operations.submit_for_team(KIND, team=team, args=args, by=by)
        if operation is None:
            under_way = Operation.objects.open().filter(team=team, kind=KIND).first()
            if under_way is None or under_way.args != args:
                raise conflict("Another agent's program is being installed. Try again when it is there.")
            return under_way
        Event.objects.record(team, actor=by, verb="agent_program.asked", subject=team, data=args)
    return operation


def last(team_id, program: Program) -> Operation | None:
    """Return the newest operation that installs this program in this version."""
    of_team = Operation.objects.filter(team=team_id, kind=KIND).order_by("-created_at")[:MAX_READ]
    return next((operation for operation in of_team if operation.args == {"program": program.named}), None)


def finish(operation: Operation, outcome: dict, *, by: Actor):
    """Record how it ended, in the transaction that settles it."""
    data = dict(operation.args)
    if not outcome["ok"]:
        data["reason"] = outcome["reason"][:1000]
    verb = "agent_program.installed" if outcome["ok"] else "agent_program.failed"
    Event.objects.record(operation.team, actor=by, verb=verb, subject=operation.team, data=data)

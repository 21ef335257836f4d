"""How often the rules of a policy decided on a call."""

from datetime import timedelta

from django.db.models import Count, F

from approvals.models import Revision
from approvals.reports.policy_changes.scopes import Scope

DAYS = 30


def counted(scope: Scope, now) -> dict[str, int]:
    """Return {rule: number of calls of the last DAYS days that it decided}, in one query.

    Counted is the rule that a verdict names: one for each call, also if rules covered other parts of it.
    """
    return dict(_recent(scope, now).exclude(rule="").order_by().values_list("rule").annotate(Count("pk")))


def without_rule(scope: Scope, now) -> dict[str, int]:
    """Return {tier: number of calls of the last DAYS days that no rule decided}, in one query."""
    return dict(_recent(scope, now).filter(rule="").order_by().values_list("action__tier").annotate(Count("pk")))


def _recent(scope: Scope, now):
    where = {"environment__name": scope.name} if scope.environment else {"environment": None}
    return Revision.objects.filter(
        action__team=scope.team,
        action__created_at__gte=now - timedelta(days=DAYS),
        number=F("action__revision"),
        **{f"action__policy__{name}": value for name, value in where.items()},
    )

"""Whether people are asked too often, and how soon they answer."""

from collections import Counter, defaultdict
from datetime import date

from django.contrib.auth import get_user_model
from django.db.models import Case, CharField, Count, F, FloatField, Func, Q, Value, When
from django.db.models.functions import Cast, Substr

from approvals.models import Action, Decision, Status, Tier
from approvals.reports.ask_rate import ANSWERED
from dashboard.site.measures.period import Period
from dashboard.site.measures.quantiles import summary

MAX_RULES = 50
DAY = len("2026-01-31")  # the beginning of a time in text, which is in UTC in both databases
# Each call went one of these ways: the policy denied it, the policy or a grant let it run, or a person was asked, who
# may have denied it. One expression for each row; a filtered count for each way would be four.
WAY = Case(
    When(tier=Tier.FORBIDDEN, then=Value("forbidden")),
    When(ANSWERED & Q(tier__in=[Tier.LOW, Tier.MEDIUM]), then=Value("asked")),  # a person edited it down
    When(Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False), then=Value("let_run")),
    When(status=Status.DENIED, then=Value("denied")),
    default=Value("asked"),
)
COUNTED = ("let_run", "asked", "forbidden", "denied")


class SecondsBetween(Func):
    """Seconds from the second time to the first. Django's own difference converts each row in Python on SQLite."""

    template, arg_joiner, output_field = "EXTRACT(EPOCH FROM (%(expressions)s))", " - ", FloatField()

    def as_sqlite(self, compiler, connection, **context):
        days = {"template": "(JULIANDAY(%(expressions)s)) * 86400.0", "arg_joiner": ") - JULIANDAY("}
        return self.as_sql(compiler, connection, **days, **context)


def calls(team_id, period: Period) -> dict:
    """Return how many calls were let run, asked, denied by a person and forbidden; by rule and by day.

    Everything is in one index of actions (action_for_measures), the rule of the current revision too.
    """
    actions = Action.objects.filter(team=team_id, created_at__gte=period.since, created_at__lt=period.until)
    day = Substr(Cast("created_at", CharField()), 1, DAY)
    counted = actions.values(day=day, by=F("rule"), way=WAY).annotate(n=Count("*")).order_by("day")
    by_rule, days = defaultdict(Counter), defaultdict(Counter)
    for row in counted:
        for counts in (by_rule[row["by"]], days[date.fromisoformat(row["day"])]):
            counts[row["way"]] += row["n"]
    rules = sorted(by_rule.items(), key=lambda item: (-item[1].total(), item[0]))
    return {
        **_counts_by_name(sum(days.values(), Counter())),
        "by_rule": [{"rule": rule} | _counts_by_name(counts) for rule, counts in rules[:MAX_RULES]],
        "by_day": {day: _counts_by_name(counts) for day, counts in days.items()},
    }


def _counts_by_name(ways: Counter) -> dict[str, int]:
    """Return the counts by name; who denied was asked, too."""
    return {name: ways[name] for name in COUNTED} | {"asked": ways["asked"] + ways["denied"]}


def latency(team_id, period: Period, *, of_person=None) -> dict:
    """Return the time from the ask to the final answer, of answers in the period: by tier and by person.

    `of_person`: the only person whose own figures are included; None includes everybody's.
    """
    answers = Decision.objects.filter(final=True, action__team=team_id, at__gte=period.since, at__lt=period.until)
    waited = SecondsBetween(F("at"), F("action__created_at"))
    groups = defaultdict(list)
    for tier, user, seconds in answers.values_list("action__tier", "user", waited):
        groups[tier, user].append(seconds)
    tiers, people, everything = defaultdict(list), defaultdict(list), []
    names = dict(get_user_model().objects.filter(pk__in={user for _, user in groups}).values_list("pk", "username"))
    for (tier, user), seconds in groups.items():
        everything += seconds
        tiers[tier] += seconds
        if of_person is None or user == of_person.pk:
            people[names[user]] += seconds
    return {
        "all": summary(everything),
        "by_tier": {tier: summary(tiers[tier]) for tier in Tier.values if tier in tiers},
        "by_person": {name: summary(people[name]) for name in sorted(people)},
    }

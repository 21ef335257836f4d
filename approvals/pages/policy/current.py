"""The Policy page: the policies of a team and its environments, their rules and how often each decided."""

from dataclasses import dataclass

from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from approvals.evaluation import policies, policy_files, workers
from approvals.models import Grant
from approvals.pages.policy.built_in import BUILT_IN
from approvals.pages.policy.past import question_of
from approvals.pages.policy.playground import TryForm
from approvals.pages.policy.scope import scope_of
from approvals.pages.policy.sentences import of_blocks
from approvals.policy import MODES, TIERS, PolicyError
from approvals.policy.people import LEAST, Takes, least
from approvals.reports.policy_changes import hits, unknown_names
from approvals.reports.policy_changes.scopes import scopes_of
from dashboard.database import clock
from dashboard.models import Team
from dashboard.text import quorum_words
from dashboard.text.labels import TIERS as TIER_LABELS
from dashboard.web.pages import signed_in

# {mode of a policy: what people are asked before}.
SENTENCES = {
    "irreversible": gettext_lazy(
        "People are asked before anything that can't be undone; everything else runs and is logged."
    ),
    "commands": gettext_lazy("People are asked before anything that can't be undone, and before commands."),
    "everything": gettext_lazy("People are asked before everything."),
}
SHOWN_VERSIONS = 5


@dataclass(frozen=True)
class Rule:
    """A rule on the page: how many calls it decided, and the earlier rule that takes all of its calls, if one does."""

    text: str
    hits: int
    shadowed: dict | None = None


@signed_in
@require_safe
def policy(request):
    scope = scope_of(request)
    team, active = scope.team, scope.policy
    floor = policies.floor(active)
    trial = TryForm(_tried(request), scope)
    verdict = trial.verdict(active, floor) if trial.is_bound and trial.is_valid() else None
    return render(
        request,
        "approvals/policy.html",
        {
            "nav": "policy",
            "teams": Team.objects.visible_to(request.caller).order_by("name"),
            "team": team,
            "scope": scope,
            "scopes": scopes_of(team),
            "policy": active,
            "versions": scope.versions.defer("text").select_related("by")[:SHOWN_VERSIONS],
            "trial": trial,
            "verdict": verdict,
            "verdict_takes": _takes(active, floor, verdict),
            "grants": Grant.objects.active(clock.now())
            .filter(team=team)
            .select_related("agent__owner", "workspace__team", "by")
            .order_by("expires_at")[:100],
            "grants_next": f"{reverse('policy')}?team={team.slug}",
            "has_files": policy_files.of_team(team.pk).exists(),
            "may_decide": request.caller.can("decide", team),
            "may_write": (may_write := request.caller.can("write_policy", team)),
            "past": question_of(scope) if may_write else None,
            **_rules(active, floor, hits.counted(scope, clock.now()), hits.without_rule(scope, clock.now())),
            "days": hits.DAYS,
        },
    )


def _takes(policy, floor, verdict) -> Takes | None:
    """Return who would have to approve the call of a verdict, None if nobody."""
    asks = verdict is not None and verdict.tier in LEAST
    return least(policies.approvals(policy, floor), verdict.tier) if asks else None


def _rules(policy, floor, counts: dict, without_rule: dict) -> dict:
    """Return {sentence, mode, tiers: [(tier, [Rule], [Judgement], calls without a rule)], tests, floor, …}.

    {broken, sentence} if the policy does not load.
    """
    try:
        rules = policies.checked(policy)
        shadowed = {(each["tier"], each["rule"]): each for each in policies.shadowed(policy)}
        below = policies.checked(floor)["rules"].get("forbidden", []) if floor else []
    except (PolicyError, workers.Late) as error:
        return {"broken": str(error), "sentence": gettext("The policy can't be read, so everything needs approval.")}
    return {
        "sentence": SENTENCES[rules["mode"]],
        "mode": MODES[rules["mode"]],
        "tiers": [
            (
                tier,
                [Rule(text, counts.get(text, 0), shadowed.get((tier, text))) for text in rules["rules"].get(tier, [])],
                BUILT_IN.get(tier, []),
                without_rule.get(tier, 0),
            )
            for tier in reversed(TIERS)
        ],
        "shadowed": len(shadowed),
        "never": [*rules["never"], *unknown_names.warnings_of(policy.team, rules)],
        "sentences": [
            (each, sum(counts.get(label, 0) for label in each.labels)) for each in of_blocks(rules["blocks"])
        ],
        "targets": rules["targets"],
        "tests": rules["tests"],
        "trust": rules["trust"],
        "rehearse": " and ".join(rules["rehearse"]),
        "approvals": [
            (TIER_LABELS[tier][0], quorum_words.takes(takes.people, takes.role, takes.groups))
            for tier, takes in policies.approvals(policy, floor).items()
        ],
        "escalations": [(TIER_LABELS[tier][0], each) for tier, each in policies.escalations(policy, floor).items()],
        "floor": [Rule(text, counts.get(text, 0)) for text in below],
    }


def _tried(request) -> dict | None:
    """Return what the address says to try; `?try=COMMAND` alone is a command."""
    if "try" in request.GET:
        return {"try-command": request.GET["try"]}
    return request.GET if request.GET.get("try-command", "").strip() else None

"""Storage: what a team's snapshots take, whether the store is sound, and what can be done about both."""

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.pages import carry_out, must, signed_in
from workspaces import upkeep
from workspaces.models import Upkeep, Work

GOING = {Work.CHECK: "Checking the store", Work.COLLECT: "Freeing space", Work.REPAIR: "Repairing the store"}
HEAVIEST = 50  # workspaces shown


class Round:
    """A round of upkeep in words."""

    def __init__(self, row: Upkeep):
        self.row, self.outcome, self.progress = row, row.outcome or {}, row.progress

    @property
    def is_over(self) -> bool:
        return self.row.ended_at is not None or upkeep.is_lost(self.row)

    @property
    def was_lost(self) -> bool:
        return self.row.ended_at is None and self.is_over

    @property
    def going(self) -> str:
        return GOING[self.row.work] + (", every byte" if self.row.full else "")

    @property
    def words(self) -> str:
        if self.row.started_at is None:
            return "waiting for the queue"
        done, size, total = (self.progress.get(name) for name in ("done", "bytes", "total_bytes"))
        if total:
            return f"{_megabytes(size)} of {_megabytes(total)}"
        return f"{done:,} entries" if done else ""

    @property
    def total(self) -> int | str:
        return self.progress.get("total_bytes") or ""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@signed_in
@require_safe
def storage(request):
    teams = [_shown(request, team) for team in Team.objects.visible_to(request.caller).order_by("name")]
    return render(request, "workspaces/storage.html", {"nav": "storage", "teams": teams})


def _shown(request, team) -> dict:
    rounds = {row.work: Round(row) for row in Upkeep.objects.filter(team=team)}
    return {
        "team": team,
        "going": [found for found in rounds.values() if not found.is_over],
        "check": rounds.get(Work.CHECK),
        "collect": rounds.get(Work.COLLECT),
        "repair": rounds.get(Work.REPAIR),
        "weights": upkeep.weights(team)[:HEAVIEST],
        "may": request.caller.can("manage_retention", team),
    }


def _ask(request, team, do):
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=team)
    must(request.caller, "manage_retention", team)
    return carry_out(request, lambda: do(team), then=reverse("storage") + f"#store-{team.slug}")


@signed_in
@require_POST
def check(request, team):
    full = request.POST.get("full") == "yes"
    return _ask(request, team, lambda found: upkeep.ask(found, Work.CHECK, by=request.caller.actor, full=full))


@signed_in
@require_POST
def collect(request, team):
    return _ask(request, team, lambda found: upkeep.ask(found, Work.COLLECT, by=request.caller.actor))


@signed_in
@require_POST
def repair(request, team):
    return _ask(request, team, lambda found: upkeep.ask(found, Work.REPAIR, by=request.caller.actor))


@signed_in
@require_POST
def stop(request, team):
    work = request.POST.get("work", "")
    return _ask(request, team, lambda found: upkeep.stop(found, work, by=request.caller.actor))

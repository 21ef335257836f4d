"""The Storage page: disk usage and health of each team's snapshot store, and its maintenance."""

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.web.pages import READ_OR_WRITE, ask_first, carry_out, is_confirmed, must, signed_in
from workspaces.models import StoreTask
from workspaces.services import store_maintenance
from workspaces.services.store_maintenance import Round

IN_PROGRESS = {
    StoreTask.CHECK: gettext_lazy("Checking the store"),
    StoreTask.COLLECT: gettext_lazy("Freeing space"),
    StoreTask.REPAIR: gettext_lazy("Repairing the store"),
}
MAX_WORKSPACES = 50  # workspaces shown


def _progress(found: Round) -> dict:
    """Return what the progress bar of a round shows."""
    operation = found.operation
    done, size, total = (operation.progress.get(name) for name in ("done", "bytes", "total_bytes"))
    if operation.started_at is None:
        message = gettext("queued")
    elif total:
        message = gettext("%(done)s of %(total)s") % {"done": _megabytes(size), "total": _megabytes(total)}
    else:
        message = gettext("%(n)s entries") % {"n": f"{done:,}"} if done else ""
    label = IN_PROGRESS[found.task]
    label = gettext("%(work)s, every byte") % {"work": label} if found.is_full else label
    return {"round": found, "label": label, "message": message, "done": size, "total": total or ""}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@signed_in
@require_safe
def storage(request):
    teams = [_shown(request, team) for team in Team.objects.visible_to(request.caller).order_by("name")]
    return render(request, "workspaces/storage.html", {"nav": "storage", "teams": teams})


def _shown(request, team) -> dict:
    rounds = store_maintenance.rounds(team)
    return {
        "team": team,
        "going": [_progress(found) for found in rounds.values() if not found.is_over],
        "check": rounds.get(StoreTask.CHECK),
        "collect": rounds.get(StoreTask.COLLECT),
        "repair": rounds.get(StoreTask.REPAIR),
        "weights": store_maintenance.freed_by_workspace(team)[:MAX_WORKSPACES],
        "may": request.caller.can("manage_retention", team),
    }


def _change(request, team, function, task: str, **how):
    """Call a function of store_maintenance for the team's store, and return to the page."""
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=team)
    must(request.caller, "manage_retention", team)
    return carry_out(
        request,
        lambda: function(team, task, by=request.caller.actor, **how),
        then=reverse("storage") + f"#store-{team.slug}",
    )


@signed_in
@require_POST
def check(request, team):
    full = request.POST.get("full") == "yes"
    return _change(request, team, store_maintenance.request, StoreTask.CHECK, full=full)


@signed_in
@READ_OR_WRITE
def collect(request, team):
    """Say what a collection deletes; a POST that was confirmed requests it."""
    if not is_confirmed(request):
        found = get_object_or_404(Team.objects.visible_to(request.caller), slug=team)
        must(request.caller, "manage_retention", found)
        return ask_first(
            request,
            title=gettext("Free space in the store of %(team)s?") % {"team": found.name},
            says=gettext(
                "Content that no snapshot uses any more is deleted for good. Every snapshot stays whole, "
                "those in the trash too."
            ),
            verb=gettext("Free space"),
            back=reverse("storage") + f"#store-{found.slug}",
        )
    return _change(request, team, store_maintenance.request, StoreTask.COLLECT)


@signed_in
@require_POST
def repair(request, team):
    return _change(request, team, store_maintenance.request, StoreTask.REPAIR)


@signed_in
@require_POST
def stop(request, team):
    return _change(request, team, store_maintenance.cancel, request.POST.get("work", ""))

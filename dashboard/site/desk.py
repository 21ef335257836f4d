"""The Desk, the log, and the small pages around them."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, Exists, Max, OuterRef, Q
from django.http import JsonResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.models import Action, AgentRun, Decision, Status, Tier
from approvals.notify.routing import note_language
from approvals.pages.card import PICKUP_TIME, cards_of, for_rows
from approvals.pages.given_tasks import open_tasks
from approvals.pages.lists import quiet_words
from approvals.reports.tasks import TaskState, tasks_of
from approvals.reports.tasks.task import OPEN_FOR
from dashboard.database import clock
from dashboard.live.feed import cursor_of
from dashboard.models import Agent, Membership
from dashboard.people import sessions
from dashboard.site import desk_changes, desk_troubles, second_factor
from dashboard.web import spans
from dashboard.web.pages import came_from, signed_in
from workspaces.models import Run, State, StateCode, Workspace
from workspaces.services import caps, retention, schedules, secret_expiry, store_maintenance
from workspaces.services.retention import What, sweeps

# What a person must be allowed to, to keep a workspace that retention takes.
KEEPS = {What.ARCHIVE: "use_workspace", What.TRASH: "use_workspace", What.DELETE: "delete_workspace"}
MAX_CARDS = 3  # cards on the Desk; the others are on Approvals
MAX_TASKS, FEW_TASKS = 5, 3  # that go on, on the Desk; the last others fill up to the fewer
MAX_GIVEN = 5  # tasks that people gave
LOOKS_BACK = timedelta(days=7)  # for the last tasks, after a long absence
VISIT_GAP = timedelta(minutes=30)  # a visit to the Desk is new after a pause this long


@signed_in
@require_safe
def desk(request):
    caller, now = request.caller, clock.now()
    visited = _last_visit(request, now)
    since = visited or now - timedelta(days=1)
    actions = Action.objects.visible_to(caller)
    pending = for_rows(actions.pending().not_snoozed(caller.user, now)).order_by("created_at")
    waiting = cards_of(pending[:MAX_CARDS], caller, now)
    return render(
        request,
        "dashboard/desk.html",
        {
            "nav": "desk",
            "waiting": waiting,
            "may_start_agents": any(caller.can("start_agents", team_id) for team_id in caller.team_ids),
            "now": now,
            "wrong": _went_wrong(caller, since, now),
            "never_picked_up": _never_picked_up(caller, since, now),
            "going": [(each, caller.can(KEEPS[each.what], each.workspace.team_id)) for each in retention.going(caller)],
            "visited": visited,
            "tasks": _tasks(caller, since, now),
            "given": open_tasks(caller, MAX_GIVEN),
            "counts": _counts(actions, since),
            "changed": desk_changes.changed(caller, since),
            "span_name": spans.VISIT if visited else spans.YESTERDAY,
            "first_run": not Agent.objects.visible_to(caller).exists() and not actions.exists(),
            "quiet": "" if waiting else quiet_words(caller),
        },
    )


def _tasks(caller, since, now) -> dict:
    """Return {shown, going_on}: tasks that go on, those that need a person first, and the last others if few do."""
    found = tasks_of(caller, max(min(since, now - OPEN_FOR), now - LOOKS_BACK))
    order = list(TaskState)
    going_on = sorted((task for task in found if task.is_open), key=lambda task: order.index(task.state))
    others = [task for task in found if not task.is_open]
    shown = going_on[:MAX_TASKS] + others[: max(0, FEW_TASKS - len(going_on))]
    return {"shown": shown, "going_on": len(going_on)}


def _last_visit(request, now):
    """Return when the visit before this one ended, None on a first visit; store the time of this one."""
    memberships = Membership.objects.filter(user=request.user)
    seen = memberships.aggregate(seen=Max("desk_seen_at"))["seen"]
    kept = request.session.get("desk_since")  # "" during a first visit
    if not seen or kept is None or now - seen > VISIT_GAP:
        kept = seen.isoformat() if seen else ""
        request.session["desk_since"] = kept
    looks = request.headers.get("X-Handrail-Refresh") != "hidden"  # false if a page in a hidden tab refreshes itself
    if looks and (not seen or now - seen > timedelta(minutes=1)):
        memberships.update(desk_seen_at=now)
    return parse_datetime(kept) if kept else None


def _went_wrong(caller, since, now) -> dict:
    """Collect what needs a person: unclear actions and operations, failed workspaces, hooks, stores and proofs.

    Of failed actions those that a person approved; an agent sees to its failing tests (they are on *Auto-approved*).
    """
    approved = Exists(Decision.objects.filter(action=OuterRef("pk"), final=True))
    wrong = Q(status=Status.UNCERTAIN) | Q(approved, status=Status.FAILED, ended_at__gte=since)
    actions = for_rows(Action.objects.visible_to(caller).filter(wrong)).order_by("-created_at")[:10]
    workspaces = Workspace.objects.visible_to(caller).kept()
    found = {
        "actions": cards_of(actions, caller, now),
        "workspaces": list(workspaces.filter(state=State.FAILED).select_related("team")[:10]),
        "hooks": [
            (workspace, caller.can("put_hook_back", workspace.team_id))
            for workspace in workspaces.exclude(hook_problem="")
            .exclude(reason_code=StateCode.HELD_UP)  # its folder is away, and has a row of its own
            .select_related("team")
            .order_by("key")[:10]
        ],
        "frozen": list(
            workspaces.filter(state=State.READY, vitals__has_key="frozen").select_related("team").order_by("key")[:10]
        ),
        **desk_troubles.away(workspaces),
        "ended": desk_troubles.ended(caller, workspaces),
        "operations": desk_troubles.unknown(caller, workspaces, since),
        "stores": store_maintenance.damaged(caller.team_ids),
        "caps": caps.pressing(caller.team_ids),
        "sweeps": sweeps.late(caller.team_ids),
        "secrets": secret_expiry.ending(caller),
        **schedules.pressing(caller),
        "agent_runs": list(AgentRun.objects.visible_to(caller).to_see_to().select_related("workspace__team")[:10]),
        "proofs": list(
            Run.objects.filter(workspace__in=workspaces, ended_at=None, proof_differ__gt=0).select_related(
                "workspace__team"
            )[:10]
        ),
    }
    return found | {"any": any(found.values())}


def _never_picked_up(caller, since, now) -> list:
    """Return approved actions that no agent picked up: still valid, or expired since the last visit."""
    waits = Q(status=Status.APPROVED, mode="gate", consumed_at=None, decided_at__lte=now - PICKUP_TIME)
    lapsed = Q(status=Status.EXPIRED, decided_at__isnull=False, ended_at__gte=since)
    decided = Exists(Decision.objects.filter(action=OuterRef("pk"), final=True))
    found = Action.objects.visible_to(caller).filter(waits | lapsed, decided)
    return cards_of(for_rows(found).order_by("-decided_at")[:10], caller, now)


def _counts(actions, since) -> dict:
    quiet = [Tier.LOW, Tier.MEDIUM]
    return actions.filter(created_at__gte=since).aggregate(
        ran=Count("pk", filter=Q(consumed_at__isnull=False)),
        allowed=Count("pk", filter=Q(tier__in=quiet) | Q(grant__isnull=False)),
        asked=Count("pk", filter=~Q(tier__in=[*quiet, Tier.FORBIDDEN]) & Q(grant=None)),
        denied=Count("pk", filter=Q(status=Status.DENIED)),
        expired=Count("pk", filter=Q(status=Status.EXPIRED)),
    )


@signed_in
@require_safe
def live(request):
    """Return the feed's cursor, for pages without a socket."""
    return JsonResponse({"upto": cursor_of(request.caller)}, headers={"Cache-Control": "no-store"})


@signed_in
@require_safe
def me(request):
    memberships = Membership.objects.filter(user=request.user).select_related("team").order_by("team__name")
    context = {"nav": "me", "memberships": memberships, "second": second_factor.of_person(request.user)}
    context |= {"sessions": sessions.of(request.user), "this_session": request.session.session_key}
    return render(request, "dashboard/me.html", context)


@signed_in
@require_POST
def theme(request):
    chosen = request.POST.get("theme", "")
    response = redirect(came_from(request, "/me/"))
    if chosen in ("light", "dark"):
        response.set_cookie("handrail-theme", chosen, max_age=365 * 24 * 3600, samesite="Lax")
    elif chosen == "":
        response.delete_cookie("handrail-theme", samesite="Lax")
    else:
        messages.error(request, gettext("There are two themes, light and dark."))
    return response


@require_POST
def language(request):
    """Show pages in the chosen language in this browser, and send the person's notifications in it."""
    response = redirect(came_from(request, "/me/" if request.user.is_authenticated else "/accounts/login/"))
    chosen = request.POST.get("language", "")
    if chosen not in dict(settings.LANGUAGES):
        messages.error(request, gettext("There are two languages, English and German."))
        return response
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        chosen,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        samesite=settings.LANGUAGE_COOKIE_SAMESITE,
    )
    if request.user.is_authenticated:
        with translation.override(chosen):
            note_language(request.user)
    return response


@signed_in
@require_POST
def keys(request):
    """Turn single-key shortcuts on or off for this browser."""
    response = redirect("me")
    if request.POST.get("keys") == "off":
        response.set_cookie("handrail-keys", "off", max_age=365 * 24 * 3600, samesite="Lax")
    else:
        response.delete_cookie("handrail-keys", samesite="Lax")
    return response


@signed_in
@require_safe
def more(request):
    return render(request, "dashboard/more.html", {"nav": "more"})

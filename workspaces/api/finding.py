"""What operations on workspaces share: finding what the caller may see, pages, waiting, and asking first."""

from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.module_loading import import_string

from dashboard.models import Team
from dashboard.problems import Problem, invalid, not_found, unavailable
from workspaces import activity, effects, history, lifecycle, schemas
from workspaces.models import Effect, Workspace

PAGE = 50
LONGEST_WAIT = 25.0
CONTROLLED = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}


def find(request, key: str, verb: str = "read", *, trashed=False) -> Workspace:
    """The workspace with this key, if the caller may see it (else 404) and may do the verb (else 403)."""
    rows = Workspace.objects.visible_to(request.auth)
    rows = rows.in_trash().order_by("-trashed_at") if trashed else rows.kept()
    related = rows.select_related("team", "environment", "head", "baseline", "runner")
    workspace = related.filter(key=key).first()
    if workspace is None:
        raise not_found("workspace")
    lifecycle.may(request.auth, verb, workspace)
    if verb != "read":
        activity.touch(workspace)
    return workspace


def busy_of(workspaces) -> dict:
    """{workspace id: kind of its exclusive effect that is not over}"""
    rows = Effect.objects.open().filter(workspace__in=workspaces, exclusive=True).order_by("-due_at")
    return {pk: kind.rsplit(".", 1)[-1] for pk, kind in rows.values_list("workspace_id", "kind")}


def shown(workspace) -> dict:
    # Busy first: the effect that ends in between changes the state with its end, so the row read later is the true one.
    busy = busy_of([workspace.pk]).get(workspace.pk)
    fresh = Workspace.objects.select_related("team", "environment", "head", "baseline").get(pk=workspace.pk)
    return schemas.workspace_out(fresh, busy)


def team_of(request):
    return Team.objects.get(pk=request.auth.team_ids[0])


def number_of(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def point_of(text: str):
    """A snapshot number or "live"."""
    if text == history.LIVE:
        return text
    if (number := number_of(text)) is None:
        raise invalid("A point in time is the number of a snapshot, or live.")
    return number


def asked(request, workspace, verb: str, wish: dict) -> dict | None:
    """What an agent hears when a person must allow it first: the action that waits. None: go ahead."""
    action = import_string(settings.HANDRAIL_ASK)(request.auth, workspace, verb, wish)
    if action is None:
        return None
    told = {"id": str(action.pk), "status": action.status, "tier": action.tier, "title": action.title}
    return {"action": told | {"digest": action.digest, "expires_at": action.expires_at}}


def page_of(rows, cursor):
    """One page by (created_at, id), newest first; the cursor is opaque to callers."""
    if cursor:
        try:
            at, _, pk = cursor.partition("~")
            at, pk = time_of(at), UUID(pk)
        except ValueError:
            raise invalid("That cursor is none of ours.") from None
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    found = list(rows.order_by("-created_at", "-pk")[: PAGE + 1])
    page = found[:PAGE]
    return page, f"{page[-1].created_at.isoformat()}~{page[-1].pk}" if len(found) > PAGE else None


def time_of(text: str):
    found = parse_datetime(text)
    if found is None or found.tzinfo is None:
        raise ValueError(text)
    return found


def ended_well(effect) -> dict:
    if not effects.is_over(effect):
        raise unavailable("The runner has not got to it yet; it will be done. Look again later.", effect=str(effect.pk))
    if not effect.outcome["ok"]:
        raise Problem(409, effect.outcome["reason"])
    return effect.outcome


async def safety_known(effect) -> dict:
    def known(e):
        return effects.is_over(e) or "safety_snapshot" in e.progress

    effect = await effects.settled(effect, 60, until=known)
    if effects.is_over(effect) and not effect.outcome["ok"]:
        raise Problem(503, effect.outcome["reason"])
    return schemas.restore_out(effect)


def move_out(effect) -> dict:
    """Long work as schemas.MoveOut has it."""
    over = effects.is_over(effect)
    return {
        "id": str(effect.pk),
        "kind": effect.kind.rpartition(".")[2],
        "phase": effect.phase,
        "progress": effect.progress,
        "can_be_stopped": not over and effect.cancelled_at is None and bool(lifecycle.right_to_stop(effect)),
        "asked_to_stop": effect.cancelled_at is not None,
        "outcome": effect.outcome,
        "created_at": effect.created_at,
    }

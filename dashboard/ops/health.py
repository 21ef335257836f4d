"""Liveness and readiness for load balancers, and the Status page for people."""

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.ops import doctor
from dashboard.problems import problem_response, unavailable
from dashboard.web.pages import signed_in
from workspaces.services import hosts

ALIVE = b"ok\n"


@never_cache
@require_safe
def healthz(request):
    """Return 200 while this process answers at all. `answers_at_once` handles plain GETs before they get here."""
    return HttpResponse(ALIVE, content_type="text/plain")


def answers_at_once(app):
    """Wrap an ASGI application so that GET /healthz needs no thread and a busy process still answers it."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("GET", "/healthz"):
            await app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain"),
            (b"content-length", b"%d" % len(ALIVE)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": ALIVE})

    return guarded


@never_cache
@require_safe
def readyz(request):
    """Return 200 with all needed parts when they work, else 503 naming those that do not.

    A driver that does not work is named as well, and leaves the status as it is: all else works.
    """
    findings = doctor.needed_to_work()
    parts = [{"part": found.part, "ok": found.ok, "words": found.words} for found in findings]
    wrong = [found for found in findings if not found.ok and not found.is_used]
    if wrong:
        detail = " ".join(f"{found.part}: {found.words}" for found in wrong)
        told = problem_response(unavailable(detail, parts=parts))
        told._has_been_logged = True  # it is asked every second or so, and what is wrong has log lines of its own
        return told
    return JsonResponse(parts, safe=False)


@signed_in
@never_cache
@require_safe
def status(request):
    is_admin = any(request.caller.can("read_hosts", team_id) for team_id in request.caller.team_ids)
    found = {"nav": "status", "findings": doctor.examine(deep=False), "hosts": hosts.shown() if is_admin else []}
    found["may_manage"] = hosts.may_manage(request.caller)
    return render(request, "dashboard/status.html", found)

"""Is it alive, is it ready, and what is wrong: for load balancers and for people."""

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard import doctor
from dashboard.pages import signed_in
from dashboard.problems import problem_response, unavailable


@never_cache
@require_safe
def healthz(request):
    """200 as long as this process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request):
    """200 with the needed parts when all of them work; else 503 that names those that do not."""
    findings = doctor.needed_to_work()
    parts = [{"part": found.part, "ok": found.ok, "words": found.words} for found in findings]
    wrong = [found for found in findings if not found.ok]
    if wrong:
        detail = " ".join(f"{found.part}: {found.words}" for found in wrong)
        return problem_response(unavailable(detail, parts=parts))
    return JsonResponse(parts, safe=False)


@signed_in
@never_cache
@require_safe
def status(request):
    return render(request, "dashboard/status.html", {"findings": doctor.examine(deep=False)})

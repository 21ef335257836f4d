"""The address for webhooks of code hosts: each kind has its own signature, and all of them only say that it is time."""

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt

from approvals.agent_runs.code_host import arrivals
from dashboard.problems import Problem, not_found, problem_response


@csrf_exempt
def arrive(request, kind: str):
    """Take a webhook of a code host. 200 {"new": false} for one that came before, 401 if its signature does not fit."""
    try:
        if kind not in arrivals.SIGNATURES:
            raise not_found("kind of code host")
        if request.method != "POST":
            raise Problem(405, "A webhook is sent as POST.")
        return JsonResponse({"new": arrivals.arrived(kind, request.headers, _body(request))})
    except Problem as problem:
        return problem_response(problem)


def _body(request) -> bytes:
    most = settings.HANDRAIL_BODY_BYTES
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > most:
        raise Problem(413, f"A webhook may have {most:,} bytes.")
    return body

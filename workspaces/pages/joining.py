"""Where a new host joins: a token that is good once is the proof, and the answer is encrypted for who holds it."""

import json

from django.core.cache import cache
from django.http import JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from dashboard.problems import Problem, invalid, problem_response
from workspaces.host import joining

JOINS = "hosts.joins"  # in the cache, for a minute
PER_MINUTE = 30  # requests at each web; a token cannot be guessed, and each costs a computation
FIELDS = ("code", "public_key", "sealed")


@csrf_exempt  # a program asks, without a session; the token is the proof
@never_cache
def join(request):
    """Answer a new host once. Problem 403, 405, 409, 410, 422, 429."""
    try:
        if request.method != "POST":
            raise Problem(405, "A new host sends a POST: `manage.py join URL TOKEN`.")
        _refuse_many()
        return JsonResponse({"sealed": joining.answer(**_asked(request))})
    except Problem as problem:
        return problem_response(problem)


def _refuse_many():
    cache.add(JOINS, 0, timeout=60)
    if cache.incr(JOINS) > PER_MINUTE:
        raise Problem(429, "Too many hosts ask to join. Try again in a minute.", code="rate_limit")


def _asked(request) -> dict:
    try:
        body = json.loads(request.body)
        found = {name: body[name] for name in FIELDS}
    except (ValueError, KeyError, TypeError):
        found = {}
    if not found or not all(isinstance(value, str) and len(value) < 4096 for value in found.values()):
        raise invalid("A new host sends code, public_key and sealed: `manage.py join URL TOKEN` does.")
    return found

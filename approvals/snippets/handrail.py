"""Ask Handrail before doing something. Standard library only; needs HANDRAIL_URL and HANDRAIL_TOKEN."""

import json
import os
import urllib.error
import urllib.request
from contextlib import contextmanager

API = os.environ["HANDRAIL_URL"] + "/api/v1/actions"
HEADERS = {"Authorization": f"Bearer {os.environ['HANDRAIL_TOKEN']}", "Content-Type": "application/json"}


class NotAllowed(Exception):
    """The call was denied, expired or withdrawn; the text says why. Do not make it."""


@contextmanager
def allowed(tool, arguments, reasoning=""):
    """Wait for the decision and yield exactly the approved arguments, which a person may have edited."""
    asked = call(API, {"tool": tool, "arguments": arguments, "mode": "gate", "reasoning": reasoning})
    action = f"{API}/{asked['id']}"
    while asked["status"] == "pending":
        asked = call(f"{action}?wait=25")
    if asked["status"] != "approved":
        raise NotAllowed((asked["decision"] or {}).get("comment") or asked["status"])
    # An approval can be used once, and only for the digest that it was given for.
    used = call(f"{action}/consume", {"digest": asked["digest"]})
    try:
        yield used["arguments"]
    except BaseException as error:
        call(f"{action}/outcome", {"status": "failed", "note": repr(error)[:500]})
        raise
    call(f"{action}/outcome", {"status": "succeeded"})


def call(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        raise NotAllowed(json.load(refused)["detail"]) from None

"""Ask Handrail before doing something. Standard library only; needs HANDRAIL_URL and HANDRAIL_TOKEN.

It waits through a restart of Handrail. Whatever fails for longer raises NotAllowed.
"""

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from decimal import Decimal

PATIENCE = 600  # seconds for which Handrail may be out of reach


class NotAllowed(Exception):
    """The call was denied, expired or withdrawn, or Handrail is out of reach; the text says why. Do not make it."""


class Number(Decimal):
    """An approved number that a float would round or write otherwise, such as 1.10; str() has its own digits."""

    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self):
        return self.text

    def __format__(self, spec):
        return super().__format__(spec) if spec else self.text


@contextmanager
def allowed(tool, arguments, reasoning=""):
    """Wait for the decision and yield exactly the approved arguments, which a person may have edited.

    Their numbers are ints and floats, or a Number where these would change digits. `dumps` writes them as JSON.
    """
    body = {"tool": tool, "arguments": arguments, "mode": "gate", "reasoning": reasoning}
    asked = call("", body, {"Idempotency-Key": uuid.uuid4().hex})
    action = f"/{asked['id']}"
    while asked["status"] == "pending":
        asked = call(f"{action}?wait=25")
    if asked["status"] != "approved":
        raise NotAllowed((asked["decision"] or {}).get("comment") or f"The request is {asked['status']}.")
    # An approval can be used once, and only for the digest that it was given for.
    used = call(f"{action}/consume", {"digest": asked["digest"]})
    try:
        yield used["arguments"]
    except BaseException as error:
        call(f"{action}/outcome", {"status": "failed", "note": repr(error)[:500]})
        raise
    call(f"{action}/outcome", {"status": "succeeded"})


def call(path, body=None, headers=None):
    """Return the answer of the API. While Handrail is out of reach, ask again for PATIENCE seconds."""
    url, token = os.environ.get("HANDRAIL_URL", "").rstrip("/"), os.environ.get("HANDRAIL_TOKEN", "")
    if not url or not token:
        raise NotAllowed("Set HANDRAIL_URL and HANDRAIL_TOKEN; the Connect page of Handrail has both.")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"} | (headers or {})
    data = None if body is None else dumps(body).encode()
    until = time.monotonic() + PATIENCE
    while True:
        try:
            request = urllib.request.Request(f"{url}/api/v1/actions{path}", data, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return loads(answer.read())
        except urllib.error.HTTPError as refused:
            trouble = detail_of(refused)
            if refused.code < 500:
                raise NotAllowed(trouble) from None
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as lost:
            trouble = str(lost) or type(lost).__name__
        if time.monotonic() > until:
            raise NotAllowed(f"Handrail at {url} is out of reach: {trouble}") from None
        time.sleep(1)


def detail_of(refused):
    try:
        return loads(refused.read())["detail"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return f"HTTP {refused.code}"


def loads(text):
    """Read JSON as json.loads does, each number with its digits."""
    return json.loads(text, parse_float=number, parse_int=number)


def number(text):
    plain = float(text) if {".", "e", "E"} & set(text) else int(text)
    return plain if repr(plain) == text else Number(text)


def dumps(value):
    """Write JSON as json.dumps does, each Number with its digits."""
    mark, texts = uuid.uuid4().hex, []

    def marked(part):
        if not isinstance(part, Decimal):
            raise TypeError(f"{type(part).__name__} is not JSON.")
        texts.append(str(part))
        return f"{mark}{len(texts) - 1}"

    return re.sub(f'"{mark}([0-9]+)"', lambda found: texts[int(found[1])], json.dumps(value, default=marked))

"""The body of a response to a hook: the agent's own JSON, or an envelope around it for the hook's program."""

from dashboard import json_text

PREFERENCE = "handrail-envelope"  # in the header Prefer


def body_of(prefer: str, answer: dict, *, decides: bool) -> bytes:
    """Return the response's body. `decides`: it is the decision on a call, or a denial."""
    text = json_text.dumps(answer)
    if PREFERENCE not in prefer:
        return text.encode()
    return json_text.dumps({"handrail": 1, "decides": decides, "stdout": text}).encode()

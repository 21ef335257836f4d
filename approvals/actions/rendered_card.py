"""What a person's page showed of a call, kept with the approval: a statement by the page, compared with the call."""

from handrail_verify import card


def in_event(statement: dict | None, call: bytes) -> dict:
    """Return what the log says of a statement: itself, its digest, and what of the call it lacks; {} without one."""
    if statement is None:
        return {}
    found = {"rendered": statement, "rendered_digest": card.digest_of(statement)}
    faults = card.faults(statement, bytes(call))
    return found | ({"rendered_faults": faults} if faults else {})


def digest_of(assertion: dict | None) -> str | None:
    """Return the digest of the statement that is kept with a decision; None without one."""
    statement = (assertion or {}).get("rendered")
    return card.digest_of(statement) if statement else None

"""What a decision point answers. No Django here."""

from dataclasses import dataclass

# What an answer means as a tier of the policy; None leaves the verdict as it is.
ASK = "high"
TIER_OF = {"allow": None, "ask": ASK, "two_people": "critical", "forbid": "forbidden"}
ORDER = tuple(TIER_OF)  # from the mildest to the strictest
MAX_REASON = 300  # characters of a reason that are shown


class NoAnswer(Exception):
    """The decision point gave no answer that can be used; the message says why in a few words."""


@dataclass(frozen=True)
class Answer:
    """`tier`: at least this one, None to leave the verdict; `why` completes "Needs approval: …"."""

    tier: str | None
    why: str = ""


def answer(name: str, decision: str, reasons: list[str]) -> Answer:
    """Return the answer of the decision point `name`: one of TIER_OF, with the reasons that it gives."""
    texts = list(dict.fromkeys(" ".join(text.split()).rstrip(".") for text in reasons))
    said = "; ".join(filter(None, texts))[:MAX_REASON] or decision.replace("_", " ")
    return Answer(TIER_OF[decision], f"{name} says: {said}")


def allowed(name: str, document: dict, without: list[str]) -> Answer:
    """Return the answer that leaves the verdict. Raise NoAnswer if something is not known, except what is in `without`.

    Neither Cedar nor OPA lets a rule fail that first looks whether an attribute is there.
    """
    if missing := [each for each in document["unknown"] if each not in without]:
        raise NoAnswer(f"it allowed what is not known: {', '.join(missing)}")
    return Answer(None)

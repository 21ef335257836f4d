"""Which requirement of which text each part of the report speaks to: the EU AI Act, Article 14, and OWASP AISVS, C14.

C14 is the chapter of the drafts of AISVS; version 1.0 has its approvals in C9.2. The sentences are ours, not the law's.
"""

from typing import NamedTuple

from django.utils.translation import gettext_lazy

ACT, AISVS = "EU AI Act (2024/1689)", "OWASP AISVS"


class Reference(NamedTuple):
    """A requirement by name, in a sentence, and the parts of the report that speak to it."""

    text: str
    clause: str
    about: str
    parts: tuple[str, ...]


REFERENCES = [
    Reference(
        ACT, "Art. 14(4)(a)", gettext_lazy("People can follow what the system does."), ("calls", "by_tier", "log")
    ),
    Reference(
        ACT, "Art. 14(4)(b)", gettext_lazy("People stay aware of the pull to accept everything."), ("attention",)
    ),
    Reference(
        ACT, "Art. 14(4)(c)", gettext_lazy("People can read what is proposed as it is meant."), ("attention", "by_tier")
    ),
    Reference(
        ACT,
        "Art. 14(4)(d)",
        gettext_lazy("People can decide against it, change it or reverse it."),
        ("decisions", "by_person", "undo"),
    ),
    Reference(ACT, "Art. 14(4)(e)", gettext_lazy("People can step in and stop it."), ("stops",)),
    Reference(ACT, "Art. 14(5)", gettext_lazy("Where two people have to confirm, two people did."), ("exceptions",)),
    Reference(
        AISVS, "C14.1 Kill-Switch & Override Mechanisms", gettext_lazy("Agents can be stopped, and were."), ("stops",)
    ),
    Reference(
        AISVS,
        "C14.2 Human-in-the-Loop Decision Checkpoints",
        gettext_lazy("The policy says what takes a person; what nobody answers does not run."),
        ("calls", "by_tier", "exceptions"),
    ),
    Reference(
        AISVS,
        "C14.3 Logging of Human Oversight Interventions",
        gettext_lazy("Each intervention is in a log that shows changes."),
        ("stops", "log"),
    ),
]

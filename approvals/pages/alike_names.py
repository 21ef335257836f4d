"""The title of a row for alike calls: "50 contact changes (crm)"."""

import re

from django.utils.translation import gettext, ngettext_lazy

from approvals.pages.alike_groups import FILE_TOOLS, Group

# {first word of a tool's name: its calls, counted; the object stands before, as the tool names it}.
COUNTED = (
    dict.fromkeys(
        ("update", "edit", "modify", "set", "patch", "change"),
        ngettext_lazy("%(n)s %(object)s change", "%(n)s %(object)s changes", "n"),
    )
    | dict.fromkeys(
        ("delete", "remove", "destroy", "purge", "drop"),
        ngettext_lazy("%(n)s %(object)s deletion", "%(n)s %(object)s deletions", "n"),
    )
    | {
        "send": ngettext_lazy("%(n)s %(object)s sent", "%(n)s %(object)s sent", "n"),
        "query": ngettext_lazy("%(n)s %(object)s query", "%(n)s %(object)s queries", "n"),
    }
)
# {word of a tool's name: its calls, counted, whatever else the name says}.
DEEDS = {
    "refund": ngettext_lazy("%(n)s refund", "%(n)s refunds", "n"),
    "payment": ngettext_lazy("%(n)s payment", "%(n)s payments", "n"),
    "payout": ngettext_lazy("%(n)s payout", "%(n)s payouts", "n"),
    "transfer": ngettext_lazy("%(n)s transfer", "%(n)s transfers", "n"),
    "charge": ngettext_lazy("%(n)s charge", "%(n)s charges", "n"),
    "message": ngettext_lazy("%(n)s message", "%(n)s messages", "n"),
    "comment": ngettext_lazy("%(n)s comment", "%(n)s comments", "n"),
}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")  # of a tool's name, however it is joined
MAKING = ("create", "make", "send", "post", "add", "issue")  # words after which a deed's name is what is done


def name_of(group: Group) -> str:
    """Return what the calls of a group are, with their number and the server of their tool."""
    n, tool = len(group.actions), group.actions[0].tool
    if tool == "Bash" or tool in FILE_TOOLS:
        return gettext("%(n)s × %(label)s") % {"n": n, "label": group.label}
    server, named = _parts_of(tool)
    words = [word.lower() for word in WORDS.findall(named)]
    by = f" ({server})" if server else ""
    return f"{_counted(n, words) or _plain(n, words, named)}{by}"


def _parts_of(tool: str) -> tuple[str, str]:
    """Return (server, name) of a tool: mcp__crm__update_contact is update_contact of crm."""
    parts = tool.split("__", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "mcp" else ("", tool)


def _counted(n: int, words: list[str]) -> str:
    deed = words[-1] if words and (len(words) == 1 or (len(words) == 2 and words[0] in MAKING)) else ""
    if deed in DEEDS:
        return DEEDS[deed] % {"n": n}
    if len(words) > 1 and words[0] in COUNTED:
        return COUNTED[words[0]] % {"n": n, "object": " ".join(words[1:])}
    return ""


def _plain(n: int, words: list[str], named: str) -> str:
    return gettext("%(n)s × %(label)s") % {"n": n, "label": " ".join(words) or named}

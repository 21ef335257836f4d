"""How a card's tier is shown: within High, what is at stake decides the label and the colour."""

from os.path import join, normpath
from typing import NamedTuple

from django.utils.translation import gettext, gettext_lazy

from approvals.models import Tier
from approvals.policy.deeds import loses_data, moves_money
from approvals.policy.programs.sql_titles import changes_data
from dashboard.text.labels import TIERS

DATABASES = ("psql", "mysql", "mariadb", "sqlite3", "mongosh", "redis-cli")
INFRASTRUCTURE = ("kubectl", "helm", "terraform", "tofu", "aws", "gcloud", "az", "gsutil", "flyctl", "heroku", "docker")
LOSING = ("delete", "destroy", "rm", "rb", "drop", "purge", "uninstall", "terminate-instances", "flushall", "flushdb")
FILE_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit", "apply_patch")

# {kind of sub-command: its label where only it cannot be undone}.
LASTING = {
    "push": gettext_lazy("Push"),
    "remote": gettext_lazy("Remote change"),
    "network": gettext_lazy("Request"),
    "delete": gettext_lazy("Deletion"),
    "write": gettext_lazy("Writing"),
}
LASTING |= {"read": gettext_lazy("Reading a secret")}


# {what is at stake, beside a tier: what the chip of a card says of it}.
TOUCHES = {
    "money": gettext_lazy("Moves money"),
    "data": gettext_lazy("Changes shared data"),
    "this machine": gettext_lazy("Changes this machine"),
    "outside": gettext_lazy("Reaches outside"),
    "install": gettext_lazy("Installs software"),
    "edit": gettext_lazy("Edits files"),
}


class Severity(NamedTuple):
    """What is at stake in a call of one tier: a word beside the tier, the tone of its chip and rail, and in words."""

    word: str
    tone: str
    touches: str = ""


def severity_of(action, revision, arguments: dict) -> Severity:
    """Return what is at stake, from what the policy's verdict says of each part; the tier itself stays as it is."""
    tone = TIERS[action.tier][1]
    if action.tier != Tier.HIGH:
        return Severity("", tone)
    steps = [step for step in revision.commands if isinstance(step, dict)]
    kinds = {step.get("what") for step in steps if step.get("tier") not in (Tier.LOW, Tier.MEDIUM)}
    named = action.tool.rpartition("__")[2]
    if "mcp" in kinds and moves_money(named):
        return Severity(gettext("money"), "red", TOUCHES["money"])
    if ("mcp" in kinds and loses_data(named, arguments)) or any(
        step.get("loses") or _loses(step.get("words") or []) for step in steps
    ):
        return Severity(gettext("data"), "red", TOUCHES["data"])
    if "harmful" in kinds:
        return Severity(gettext("this machine"), "red", TOUCHES["this machine"])
    if kinds & {"push", "remote", "network"}:
        return Severity(gettext("outside"), tone, TOUCHES["outside"])
    if "install" in kinds:
        return Severity(gettext("install"), "quiet", TOUCHES["install"])
    if action.tool in FILE_TOOLS and kinds <= {"write"}:
        return Severity(gettext("edit"), "quiet", TOUCHES["edit"])
    return Severity("", "quiet" if action.undo == "yes" else tone)


def _loses(words: list[str]) -> bool:
    """Return whether a command deletes or changes data that other programs or people use."""
    name = words[0].rpartition("/")[2] if words else ""
    if name in DATABASES:
        return any(changes_data(word.removeprefix("--command=")) for word in words[1:]) or bool(
            set(words) & set(LOSING)
        )
    return name in INFRASTRUCTURE and any(word in LOSING for word in words[1:4])


def undo_of_card(action, revision, cwd: str) -> str:
    """Return the value of `undo` for the chip: "kept" for an edit in the agent's folder outside any workspace.

    Handrail takes no snapshot there, and whoever keeps the folder under version control undoes it with that.
    """
    steps = revision.commands
    is_edit = action.tool in FILE_TOOLS and bool(steps) and {step.get("what") for step in steps} == {"write"}
    if action.workspace_id is not None or action.undo != "no" or not is_edit or not cwd.startswith("/"):
        return action.undo_now
    names = [str(name) for step in steps for name in step.get("targets") or ()]
    return "kept" if names and all(_is_below(name, cwd) for name in names) else action.undo_now


def _is_below(name: str, cwd: str) -> bool:
    path = normpath(join(cwd, name))
    return not name.startswith("~") and path.startswith(f"{normpath(cwd)}/") and "/.git/" not in f"{path}/"


def lasting_part(revision) -> str:
    """Return a label for the parts of a command that cannot be undone; "" if that is all of it, or of several kinds."""
    steps = revision.commands
    lasting = {LASTING.get(step.get("what"), "") for step in steps if step.get("undo") == "no"}
    changes = any(step.get("undo") != "no" and step.get("tier") != Tier.LOW for step in steps)
    return lasting.pop() if changes and len(lasting) == 1 else ""

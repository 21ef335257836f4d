"""Take back what left a workspace: branches and tags at a git source, and what was opened or written at a code host.

A step is one of

* `{"do": "put_back", "remote", "ref", "to", "if_at"}`: let a branch or tag be at the commit `to` again ("": delete it),
  but only if it is at `if_at` now ("": only if it is not there);
* `{"do": name of WORDS, "repository", …}`: call the code host's API for the repository at this address.

Steps fit as long as nobody changed what they change. All are looked at before the first is carried out.
"""

from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Actor
from dashboard.problems import invalid
from workspaces import code_hosts, operations
from workspaces.models import Operation
from workspaces.operations import needs_approval

KIND = "take_back"
PUT_BACK = "put_back"
HEADS = "refs/heads/"
TAGS = "refs/tags/"
MAX_STEPS = 20
SHORT = 7  # digits of a commit
# {what is done at a code host: (its words before the number or name is known, and with it)}.
WORDS = {
    "close_pull_request": (
        gettext_lazy("closes the pull request"),
        gettext_lazy("closes pull request #%(number)s"),
    ),
    "reopen_pull_request": (
        gettext_lazy("opens the pull request again"),
        gettext_lazy("opens pull request #%(number)s again"),
    ),
    "close_issue": (gettext_lazy("closes the issue"), gettext_lazy("closes issue #%(number)s")),
    "reopen_issue": (gettext_lazy("opens the issue again"), gettext_lazy("opens issue #%(number)s again")),
    "delete_comment": (
        gettext_lazy("deletes the comment"),
        gettext_lazy("deletes the comment %(comment)s on #%(number)s"),
    ),
    "dismiss_review": (gettext_lazy("dismisses the review"), gettext_lazy("dismisses the review of #%(number)s")),
    "remove_label": (
        gettext_lazy("removes the label %(label)s"),
        gettext_lazy("removes the label %(label)s from #%(number)s"),
    ),
    "add_label": (
        gettext_lazy("adds the label %(label)s again"),
        gettext_lazy("adds the label %(label)s to #%(number)s again"),
    ),
    "delete_label": (gettext_lazy("deletes the label %(label)s"),) * 2,
    "delete_release": (gettext_lazy("deletes the release %(tag)s"),) * 2,
}
NUMBERS = ("number", "comment", "review")  # keys whose values are numbers
NAMES = ("label", "tag")


def put_back(remote: str, ref: str, to: str, if_at: str | None) -> dict:
    """Return the step for a ref; `if_at` None: it is not known yet what will be there."""
    return {"do": PUT_BACK, "remote": remote, "ref": ref, "to": to, "if_at": if_at}


def name_of(ref: str) -> str:
    """Return a ref as people call it: the branch's name, or "tag v1"."""
    return f"tag {ref.removeprefix(TAGS)}" if ref.startswith(TAGS) else ref.removeprefix(HEADS)


def words_of(steps: list[dict]) -> str:
    """Return what the steps do, as the end of a sentence that begins with "it", in the language of the reader."""
    *first, last = map(_words, steps)
    return gettext("%(first)s and %(last)s") % {"first": ", ".join(first), "last": last} if first else last


def _words(step: dict) -> str:
    if step["do"] != PUT_BACK:
        before, after = WORDS[step["do"]]
        return str(after if is_whole(step) else before) % step
    names = {"name": name_of(step["ref"]), "commit": step["to"][:SHORT]}
    if step["if_at"] == "":
        return gettext("makes %(name)s at %(commit)s again if nobody made it meanwhile") % names
    if step["to"]:
        return gettext("puts %(name)s back to %(commit)s if nobody pushed meanwhile") % names
    return gettext("deletes %(name)s if nobody pushed meanwhile") % names


def is_whole(step: dict) -> bool:
    """Return whether all that the step needs is known."""
    return all(value is not None for value in step.values())


def check(steps) -> list[dict]:
    """Return the steps. Problem 422 if one of them is none."""
    if not isinstance(steps, list) or not 1 <= len(steps) <= MAX_STEPS:
        raise invalid(f"There must be from 1 to {MAX_STEPS} steps.")
    for step in steps:
        if not isinstance(step, dict) or not _is_step(step):
            raise invalid("This is no step that can be taken back.")
    return steps


def _is_step(step: dict) -> bool:
    texts = {name: value for name, value in step.items() if name not in NUMBERS}
    if not all(isinstance(value, str) and value.isprintable() and len(value) <= 2000 for value in texts.values()):
        return False
    if step["do"] == PUT_BACK:
        return set(step) == {"do", "remote", "ref", "to", "if_at"} and step["ref"].startswith((HEADS, TAGS))
    if step["do"] not in WORDS or code_hosts.repository_of(str(step.get("repository"))) is None:
        return False
    numbers = [value for name, value in step.items() if name in NUMBERS]
    return all(isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in numbers)


def submit(workspace, wish: dict, *, by: Actor) -> Operation:
    """Take back the steps of the wish; a person approves it first where an agent asks. Problem 422."""
    steps = check(wish.get("steps"))
    needs_approval.require(workspace, KIND, wish, by=by, always=True)
    return operations.submit(KIND, workspace=workspace, by=by, args={"steps": steps})

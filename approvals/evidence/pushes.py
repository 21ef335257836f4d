"""Evidence for pushes: what would be sent where, by the repository's own record of the remote."""

from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.utils import translation

from approvals.evaluation.calls import beneath
from approvals.evaluation.own_verbs import gathers
from dashboard.problems import Problem
from dashboard.text.counts import counted
from workspaces.services import git_export, left_out, pull_requests

from . import commits
from .argv import Parsed, after, git_verb, is_known, parse
from .findings import UNKNOWN, Finding

WITH_VALUE = ("-C", "-c", "-o", "--push-option", "--repo", "--receive-pack", "--exec", "--git-dir", "--work-tree")
# Options that make git use another repository or other settings than those inspected here.
ELSEWHERE = ("-c", "--git-dir", "--work-tree", "--config-env", "--bare", "--namespace")
ALL = ("--all", "--branches", "--mirror", "--tags")


def is_push(step: dict) -> bool:
    return git_verb(step["words"]) == "push"


def question_of(step: dict, root: str) -> tuple[dict | None, Parsed]:
    """Return (question for git about a `git push`, its parsed words).

    The question is None if the words do not determine the repository and branches.
    """
    parsed = parse(after(step["words"], ("git",))[1], WITH_VALUE)
    what, *operands = parsed.operands or [""]
    folder = beneath((parsed.values("-C") or ["."])[-1], step.get("cwd") or "/", root)
    if what != "push" or folder is None or parsed.has(*ELSEWHERE) or not all(map(is_known, operands)):
        return None, parsed
    remote = (operands[:1] or parsed.values("--repo") or [None])[0]
    refspecs = [f":{name}" for name in operands[1:]] if parsed.has("-d", "--delete") else operands[1:]
    return {"folder": folder, "remote": remote, "refspecs": refspecs}, parsed


def push(place, steps: list[dict], at: int) -> Finding:
    """Return the evidence for the `git push` at `at`, including what earlier sub-commands commit."""
    step = steps[at]
    finding = Finding(step["line"], step["text"], [])
    question, parsed = question_of(step, place.root)
    if question is None:
        finding.says.append(UNKNOWN)
        return finding
    earlier, is_all = commits.before(steps, at, question["folder"], place.root)
    answer = place.ask("git-push", question | {"steps": earlier})
    _say(finding, answer)
    if made := answer.get("made"):
        finding.says.append(
            f"Includes {counted(made, 'commit')} that this command creates first, as without git hooks."
        )
    if not is_all:
        finding.says.append("Earlier parts may change what it pushes.")
    finding.has_diff = _has_diff(answer)
    if parsed.has(*ALL):
        finding.says.append("Also pushes other branches or tags, unknown until it runs.")
    if parsed.has("-n", "--dry-run"):
        finding.says.append("Dry run: pushes nothing.")
    return finding


def patches_of(place, steps: list[dict], at: int) -> list[tuple[str, str, bool]]:
    """Return [(branch, patch, whether it is cut)] for the `git push` at `at`."""
    question, _ = question_of(steps[at], place.root)
    if question is None:
        return []
    earlier, _ = commits.before(steps, at, question["folder"], place.root)
    return _patches(place.ask("git-push", question | {"steps": earlier, "patch": True}))


def patches_out(place, arguments: dict) -> list[tuple[str, str, bool]]:
    """Return [(branch, patch, whether it is cut)] for Handrail's own push."""
    return _patches(place.ask("git-push", _question_out(place, arguments) | {"patch": True}))


def _patches(answer: dict) -> list[tuple[str, str, bool]]:
    return [(sent["to"], sent["patch"], sent["cut"]) for sent in answer.get("sends", ()) if "patch" in sent]


def _question_out(place, arguments: dict) -> dict:
    return git_export.question_of(place.workspace, arguments.get("branch", ""))


@gathers("Handrail.Push")
def push_out(place, arguments: dict, text: str) -> Finding:
    """Return the evidence for Handrail's own push, from the workspace's repository to the URL it was cloned from."""
    finding = Finding(1, text, [])
    answer = place.ask("git-push", _question_out(place, arguments))
    if "error" not in answer:
        # Handrail pushes to the workspace's source, whatever remotes its repository has by now.
        answer |= {"known": True, "remote": "the source", "addresses": [place.workspace.remote or "none"]}
    _say(finding, answer)
    finding.says = [*finding.says[1:], *finding.says[:1]]  # what first: the call itself says where
    with translation.override(settings.LANGUAGE_CODE):  # the evidence is kept with the decision
        finding.says += [f"Leaves out {words}." for words in left_out.sentences(answer.get("left", {}))]
    finding.has_diff = _has_diff(answer)
    return finding


@gathers("Handrail.PullRequest")
def pull_request_out(place, arguments: dict, text: str) -> Finding:
    """Return the evidence for a pull request: that of its push, and which secret's token goes where."""
    finding = push_out(place, arguments, text)
    try:
        repository = pull_requests.repository_of(place.workspace)
        secret = pull_requests.secret_for(place.workspace.team_id, repository)
    except Problem:
        return finding
    where = f"{repository.base} and nowhere else"
    finding.says.append(
        f"Sends the token in the secret {secret.name} to {where}."
        if secret
        else pull_requests.without_token(place.workspace.team_id, repository)
    )
    return finding


def _has_diff(answer: dict) -> bool:
    """Return whether there is a diff to show: some branch sends commits or changes files."""
    return any("sha" in sent and (sent["count"] or sent["files"]["count"]) for sent in answer.get("sends", ()))


def _say(finding: Finding, told: dict):
    if "error" in told:
        finding.says.append(f"Can't tell what it pushes: {told['error']}")
        return
    if told["known"]:
        finding.says.append(f"Pushes to {told['remote']} ({' and '.join(map(without_secret, told['addresses']))}).")
    else:
        finding.says.append(f"Pushes to {without_secret(told['remote'])}, which is not a remote of this repository.")
    for sent in told["sends"]:
        _say_one(finding, sent)
    if not told["sends"]:
        finding.says.append("No branch is checked out, so what it pushes is unknown.")
    if told["more"]:
        finding.says.append(f"{told['more']} more branches are not listed.")
    if told["outside"]:
        finding.says.append("The repository also uses objects outside the workspace, which were not checked.")


def _say_one(finding: Finding, sent: dict):
    branch = sent["to"]
    if "says" in sent:
        finding.says.append(f"{branch}: {sent['says']}.")
        return
    files = sent["files"]
    if sent["count"] or files["count"]:
        changes = f"+{files['additions']:,} −{files['deletions']:,}"
        what = f"{counted(sent['count'], 'commit')}, {counted(files['count'], 'file')}, {changes}"
    else:
        what = "nothing new to push"
    finding.says.append(f"Branch {branch}: {what}.")
    if not sent["tracked"]:
        finding.says.append(f"Can't tell whether {branch} already exists there.")
    elif sent["lost"]:
        finding.says.append(f"Removes {counted(sent['lost'], 'commit')} from {branch}.")
    finding.commits += [(commit["sha"][:10], commit["subject"]) for commit in sent["commits"]]
    finding.files += [tuple(row) for row in files["first"]]
    finding.more += max(0, files["count"] - len(files["first"]))


def without_secret(address: str) -> str:
    """Return a URL with its password masked, and its user and host kept; over HTTP a lone user is masked too."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    if not parts.scheme or "@" not in parts.netloc:
        return address
    user, _, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    hidden = f"{name}:•••" if colon else ("•••" if parts.scheme.startswith("http") else name)
    return urlunsplit(parts._replace(netloc=f"{hidden}@{host}"))

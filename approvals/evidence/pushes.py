"""What a push would take where, by what the repository itself last knew of the other side."""

from urllib.parse import urlsplit, urlunsplit

from approvals.calls import beneath

from .findings import UNKNOWN, Finding
from .words import after, is_known, parse

WITH_VALUE = ("-C", "-c", "-o", "--push-option", "--repo", "--receive-pack", "--exec", "--git-dir", "--work-tree")
# What makes git read another repository or other settings than those that are looked at here.
ELSEWHERE = ("-c", "--git-dir", "--work-tree", "--config-env", "--bare", "--namespace")
ALL = ("--all", "--branches", "--mirror", "--tags")


def is_push(step: dict) -> bool:
    git = after(step["words"], ("git",))
    return git is not None and "push" in git[1]


def push(place, step: dict) -> Finding:
    """Of a `git push` in a command."""
    finding = Finding(step["line"], step["text"], [])
    parsed = parse(after(step["words"], ("git",))[1], WITH_VALUE)
    what, *operands = parsed.operands
    folder = beneath((parsed.values("-C") or ["."])[-1], step.get("cwd") or "/", place.root)
    if what != "push" or folder is None or parsed.has(*ELSEWHERE) or not all(map(is_known, operands)):
        finding.says.append(UNKNOWN)
        return finding
    remote = (operands[:1] or parsed.values("--repo") or [None])[0]
    question = {"folder": folder, "remote": remote, "refspecs": operands[1:]}
    if parsed.has("-d", "--delete"):
        question["refspecs"] = [f":{name}" for name in operands[1:]]
    answer = place.ask("git-push", question)
    _say(finding, answer)
    if parsed.has(*ALL):
        finding.says.append("Takes other branches or tags as well; which ones is not known before it runs.")
    if parsed.has("-n", "--dry-run"):
        finding.says.append("Sends nothing: it only tries.")
    return finding


def push_out(place, arguments: dict, text: str) -> Finding:
    """Of Handrail's own push: what the workspace's repository has, to the address that the workspace came from."""
    finding = Finding(1, text, [])
    branch = arguments.get("branch", "")
    answer = place.ask("git-push", {"folder": "", "remote": "origin", "refspecs": [f"HEAD:{branch}"]})
    if "error" not in answer:
        # Handrail pushes to where the workspace came from, whatever its repository says by now.
        answer |= {"known": True, "remote": "the source", "addresses": [place.workspace.source.get("git") or "none"]}
    _say(finding, answer)
    return finding


def _say(finding: Finding, told: dict):
    if "error" in told:
        finding.says.append(f"What it sends is not known: {told['error']}")
        return
    if told["known"]:
        finding.says.append(f"Goes to {told['remote']}: {' and '.join(map(without_secret, told['addresses']))}")
    else:
        finding.says.append(f"Goes to {without_secret(told['remote'])}, which is no remote that this repository knows.")
    for sent in told["sends"]:
        _say_one(finding, sent)
    if not told["sends"]:
        finding.says.append("No branch is checked out, so what it sends is not known.")
    if told["more"]:
        finding.says.append(f"{told['more']} more branches are not listed.")
    if told["outside"]:
        finding.says.append("The repository also names objects outside the workspace, which are not looked at.")


def _say_one(finding: Finding, sent: dict):
    branch = sent["to"]
    if "says" in sent:
        finding.says.append(f"{branch}: {sent['says']}.")
        return
    files = sent["files"]
    finding.says.append(
        f"Branch {branch}: {_count(sent['count'], 'commit')}, {_count(files['count'], 'file')}, "
        f"+{files['additions']:,} −{files['deletions']:,}."
    )
    if not sent["tracked"]:
        finding.says.append(f"Whether {branch} is there already is not known here.")
    elif sent["lost"]:
        finding.says.append(f"{_count(sent['lost'], 'commit')} that {branch} had are not in it and would go.")
    finding.commits += [(commit["sha"][:10], commit["subject"]) for commit in sent["commits"]]
    finding.files += [tuple(row) for row in files["first"]]
    finding.more += max(0, files["count"] - len(files["first"]))


def without_secret(address: str) -> str:
    """An address with the password in it masked; who it belongs to and where it leads stay."""
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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

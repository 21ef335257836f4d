"""What `gh`, `glab` and `tea` bring about at a code host, as the steps that take it back (services.taking_back).

A number that only the call itself brings about is None until its output names it.
"""

import re
from dataclasses import dataclass

from approvals.evidence.argv import after, is_known, parse
from workspaces import code_hosts
from workspaces.code_hosts import Repository

PROGRAMS = ("gh", "glab", "tea")
PULLS, ISSUES = ("pr", "prs", "pull", "pulls", "mr"), ("issue", "issues")
CREATING, COMMENTING = ("create", "new", "c"), ("comment", "note")
WITH_VALUE = (
    *("-R", "--repo", "-t", "--title", "-b", "--body", "-F", "--body-file", "-B", "--base", "-H", "--head", "-m"),
    *("--message", "--description", "-d", "-l", "--label", "--unlabel", "--add-label", "--remove-label", "-n", "-N"),
    *(
        "--name",
        "--notes",
        "--notes-file",
        "--target",
        "--ref",
        "--color",
        "-c",
        "--tag",
        "--comment",
        "-T",
        "--reason",
    ),
    *("--template", "--milestone", "--reviewer", "--assignee", "--project", "--source-branch", "--target-branch"),
    *("--login", "--remote", "--add-assignee", "--add-labels", "--remove-labels", "--labels", "--note"),
)
MERGED = "A merge can't be taken back by a call. A new commit can revert it."
COMMENTED = "A review that only comments can't be dismissed."
UNKNOWN = "Handrail doesn't know how this can be taken back"
FOUND_URL = r"/(?P<what>pull|pulls|issues|-/merge_requests|-/issues|merge_requests)/(?P<number>\d+)"
FOUND_URL += r"(?:#(?P<at>issuecomment-|note_|discussion_r)(?P<comment>\d+))?"
OF_API = (
    *("-X", "--method", "-f", "--raw-field", "-F", "--field", "-H", "--header", "--input", "--hostname"),
    *("-q", "--jq", "-t", "--template", "-p", "--preview", "--cache"),
)
COMMENTS = re.compile(r"/?repos/([^/?#]+)/([^/?#]+)/(issues|pulls)/(\d{1,9})/comments(?:/\d+/replies)?")
LINE = "line"  # what a comment is on, at GitHub: the line of a pull request, where comments have numbers of their own


@dataclass
class AtHost:
    """Steps that take back what one sub-command does; `why_not` instead, if it cannot be taken back."""

    steps: list[dict]
    why_not: str = ""
    tag: str = ""  # of a release, which its code host makes if it is not there


def is_at_host(step: dict) -> bool:
    return after(step["words"], PROGRAMS) is not None


def effect_of(step: dict, source: str) -> AtHost:
    """Return what takes the sub-command back. `source` is the address that the workspace came from."""
    program, words = after(step["words"], PROGRAMS)
    if program == "gh" and words[:1] == ["api"]:
        return _of_api(parse(words, OF_API), source)
    parsed = parse(words, WITH_VALUE)
    kind, verb, *operands = [*parsed.operands, "", ""]
    values = [value for _, value in parsed.options if value is not None]
    repository = _repository(program, parsed.values("-R", "--repo"), source)
    if repository is None or not all(map(is_known, [kind, verb, *operands, *values])):
        return AtHost([], f"{UNKNOWN}, as what it names is unknown until it runs.")
    where = f"{repository.base}/{repository.path}"
    found = _effect(program, kind, verb, [each.removeprefix(f"{where}/") for each in operands if each], parsed)
    found.steps = [{**each, "repository": where} for each in found.steps]
    return found


def _effect(program: str, kind: str, verb: str, operands: list[str], parsed) -> AtHost:
    if program == "tea" and kind == "comment":
        return AtHost([_comment(_number(verb), "issue")])
    if kind == "label" and verb in CREATING:
        names = parsed.values("--name", "-n") or operands
        return AtHost([{"do": "delete_label", "label": names[0]}]) if names else _unknown()
    if kind in ("release", "releases") and verb in CREATING:
        tags = parsed.values("--tag") or operands
        return AtHost([{"do": "delete_release", "tag": tags[0]}], tag=tags[0]) if tags else _unknown()
    on = "pull_request" if kind in PULLS else "issue" if kind in ISSUES else ""
    if not on:
        return _unknown()
    number = _number(operands[0]) if operands else None
    if verb in CREATING:
        return AtHost([{"do": f"close_{on}", "number": None}])
    if verb in COMMENTING:
        return _unknown() if parsed.has("--edit-last", "--delete-last") else AtHost([_comment(number, on)])
    if verb == "merge":
        return AtHost([], MERGED)
    return _change(program, on, verb, number, parsed) if number else _unknown()


def _of_api(parsed, source: str) -> AtHost:
    """Return what takes a comment back that `gh api` writes. Its answer has the comment's number, unless it is cut."""
    sends = parsed.has("-f", "--raw-field", "-F", "--field", "--input")
    method = (parsed.values("-X", "--method") or ["POST" if sends else "GET"])[-1].upper()
    words = [*parsed.operands[1:], *parsed.values("--hostname")]
    if len(parsed.operands) != 2 or method != "POST" or not all(map(is_known, words)):
        return _unknown()
    if not (found := COMMENTS.fullmatch(parsed.operands[1])):
        return _unknown()
    owner, name, what, number = found.groups()
    host = (parsed.values("--hostname") or [""])[-1]
    own = (owner, name) == ("{owner}", "{repo}")
    repository = _repository("gh", [] if own else ["/".join(filter(None, (host, owner, name)))], source)
    if repository is None:
        return _unknown()
    step = _comment(int(number), LINE if what == "pulls" else "issue")
    return AtHost([{**step, "repository": f"{repository.base}/{repository.path}"}])


def _change(program: str, on: str, verb: str, number: int, parsed) -> AtHost:
    if verb in ("close", "reopen"):
        return AtHost([{"do": f"{'reopen' if verb == 'close' else 'close'}_{on}", "number": number}])
    if verb in ("edit", "update"):
        return _labels(on, number, parsed)
    if verb == "approve" and program == "glab":
        return AtHost([{"do": "dismiss_review", "number": number}])
    if verb in ("review", "approve", "reject"):
        if verb == "review" and not parsed.has("-a", "--approve", "-r", "--request-changes"):
            return AtHost([], COMMENTED)
        return AtHost([{"do": "dismiss_review", "number": number, "review": None}])
    return _unknown()


def _labels(on: str, number: int, parsed) -> AtHost:
    """Return the steps for an edit that changes labels and nothing else."""
    added = parsed.values("--add-label", "--add-labels", "--label", "-l")
    removed = parsed.values("--remove-label", "--remove-labels", "--unlabel")
    named = ("-R", "--repo", "--add-label", "--add-labels", "--label", "-l")
    named += ("--remove-label", "--remove-labels", "--unlabel")
    if not added + removed or any(name not in named for name, _ in parsed.options):
        return _unknown()
    wanted = [("remove_label", added), ("add_label", removed)]
    names = [(do, name.strip()) for do, listed in wanted for text in listed for name in text.split(",")]
    return AtHost([{"do": do, "number": number, "label": name, "on": on} for do, name in names if name])


def _comment(number: int | None, on: str) -> dict:
    return {"do": "delete_comment", "number": number, "comment": None, "on": on}


def _unknown() -> AtHost:
    return AtHost([], f"{UNKNOWN}.")


def _number(word: str) -> int | None:
    """Return the number of a word such as #12, or of an address below that of the repository; None for a branch."""
    found = re.fullmatch(r"(?:[#!]|(?:-/)?(?:pulls?|issues|merge_requests)/)?(\d{1,9})", word)
    return int(found[1]) if found else None


def _repository(program: str, named: list[str], source: str) -> Repository | None:
    """Return the repository that `-R` names, as OWNER/NAME, HOST/OWNER/NAME or an address; else the source's."""
    own = code_hosts.repository_of(source or "")
    if not named:
        return own
    if "://" in named[-1]:
        return code_hosts.repository_of(named[-1])
    parts = named[-1].split("/")
    is_with_host = len(parts) > 2 and "." in parts[0] and program == "gh"
    host, path = (parts[0], parts[1:]) if is_with_host else ("", parts)
    if own and host in ("", own.site) and (program != "gh" or host):
        return code_hosts.repository_of(f"{own.base}/{'/'.join(path)}")
    default = {"gh": "github.com", "glab": "gitlab.com"}.get(program, "")
    host = host or (own.site if own and own.host != default else default)
    return code_hosts.repository_of(f"https://{host}/{'/'.join(path)}") if host else None


def with_numbers(steps: list[dict], output: str) -> list[dict]:
    """Return the steps with the numbers that the output of the call names, each address once, in their order.

    No comment is taken for the call's own where the output names more of them than it writes: a comment's text comes
    back with it, and may name others.
    """
    told: dict[str, list] = {}
    filled = []
    for at, step in enumerate(steps):
        if step.get("number", 0) is not None and step.get("comment", 0) is not None:
            filled.append(step)
            continue
        where = step["repository"]
        if where not in told:
            pattern = re.escape(where) + FOUND_URL
            # pattern: an escaped address, and after it only words and digits
            found = {match[0]: match.groupdict() for match in re.finditer(pattern, output[-20_000:])}
            told[where] = list(found.values())
        filled.append(_filled(step, told[where], sum(_is_alike(step, other) for other in steps[at:])))
    return filled


def _filled(step: dict, told: list[dict], alike: int) -> dict:
    """Return the step with the first address that fits, which is taken from `told`. `alike`: steps that it fits."""
    is_comment = step["do"] == "delete_comment"
    fits = [found for found in told if _fits(step, found)]
    if not fits or (is_comment and len(fits) > alike):
        return step
    told.remove(fits[0])
    comment = {"comment": int(fits[0]["comment"])} if is_comment else {}
    return {**step, "number": int(fits[0]["number"]), **comment}


def _fits(step: dict, found: dict) -> bool:
    if bool(found["comment"]) != (step["do"] == "delete_comment"):
        return False
    if (found["at"] == "discussion_r") != (step.get("on") == LINE):
        return False
    return step["number"] is None or step["number"] == int(found["number"])


def _is_alike(step: dict, other: dict) -> bool:
    """Return whether an address that fits the one fits the other."""
    names = ("do", "repository", "number")
    is_same = all(step.get(name) == other.get(name) for name in names)
    return is_same and (step.get("on") == LINE) == (other.get("on") == LINE)

"""What could be trusted so that less asks: programs of the project, places, reads at the code host.

Each suggestion says what it saves and which attacks would run with it. One that lets a general attack through is not
made.
"""

import json
import tomllib
from collections import Counter
from dataclasses import dataclass, replace

from approvals.past import attacks
from approvals.past.replay import Asked, Judge, asks
from approvals.policy import PolicyError, read_policy
from approvals.policy.programs.registry import is_known

MAX_PROGRAMS, MAX_PLACES = 8, 4  # suggestions
MAX_TRIED = 24  # candidates of a kind that are looked at
MAX_FOLDERS = 500  # that are compared
MIN_SAVED = 2  # calls
PROGRAM, PLACE, CODE_HOST = "program", "place", "code_host"


@dataclass(frozen=True)
class Trusted:
    """One thing to trust: `entry` is what the policy's text gets."""

    kind: str
    label: str
    entry: object
    says: str


@dataclass(frozen=True)
class Suggestion:
    """`saves`: calls that no longer ask. `allows`: attacks that are aimed at what is trusted and run with it."""

    trusted: Trusted
    saves: int
    allows: tuple
    aimed: int  # how many attacks were aimed at it


def program(name: str, file: dict) -> Trusted:
    entry = {"name": name, "path": file["path"], "sha256": file["sha256"]}
    says = f"{file['path']}, while its contents stay as they are (sha256 {file['sha256'][:12]}…)"
    return Trusted(PROGRAM, name, entry, says)


def place(path: str) -> Trusted:
    return Trusted(PLACE, path, path, "reads and writes in this folder; secrets and protected files in it still ask")


CODE_HOST_READS = Trusted(
    CODE_HOST, "reads at the code host", True, "commands such as gh pr view and git fetch, which only read"
)


def trusting(text: str, *more: Trusted) -> str:
    """Return the text of a policy with these trusted as well; the rest of it stays as it is. Raise PolicyError."""
    had = tomllib.loads(text).get("trust", {})
    programs, places, code_host = list(had.get("programs", [])), list(had.get("places", [])), had.get("code_host")
    for each in more:
        if each.kind == PROGRAM:
            programs = [old for old in programs if old["name"] != each.label] + [each.entry]
        elif each.kind == PLACE:
            places += [each.entry] if each.entry not in places else []
        else:
            code_host = True
    wanted = {"servers": had["servers"]} if had.get("servers") else {}
    wanted |= _table(programs, places, code_host)
    new = _without_table(text).rstrip("\n") + "\n" + table_text(wanted)
    if _parsed(new) != tomllib.loads(text) | {"trust": wanted}:
        raise PolicyError("The policy writes what it trusts in a form that can't be extended here; edit its text.")
    read_policy(new)
    return new


def _parsed(text: str) -> dict | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _table(programs, places, code_host) -> dict:
    table = {"code_host": code_host, "places": places, "programs": programs}
    return {name: value for name, value in table.items() if value not in (None, [])}


def _without_table(text: str) -> str:
    """Remove the tables that start with [trust]; the caller compares what is left."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            inside = line.strip() in ("[trust]", "[[trust.programs]]", "[[trust.servers]]")
        if not inside:
            kept.append(line)
    return "".join(kept)


def table_text(table: dict) -> str:
    """Return the TOML text of the table [trust]."""
    lines = ["", "[trust]"]
    if "code_host" in table:
        lines.append(f"code_host = {json.dumps(table['code_host'])}")
    if "places" in table:
        lines.append(f"places = {json.dumps(table['places'])}")
    for kind in ("programs", "servers"):
        for each in table.get(kind, ()):
            lines += ["", f"[[trust.{kind}]]", *(f"{name} = {json.dumps(value)}" for name, value in each.items())]
    return "\n".join(lines) + "\n"


def with_trust(judge: Judge, text: str, floor: str, *more: Trusted) -> Judge | None:
    """Return a judge whose policy `text`, above `floor`, trusts these as well; None if the policy cannot."""
    try:
        policy = read_policy(trusting(text, *more))
    except PolicyError:
        return None
    return replace(judge, policy=policy.above(read_policy(floor)) if floor else policy, confirmed={})


def suggest(found: list[Asked], judge: Judge, text: str, floor: str, running: set) -> list[Suggestion]:
    """Return what to trust, what saves most first. `running`: attacks that the policy lets run already."""
    made = []
    for trusted, of in _candidates(found, judge):
        trial = with_trust(judge, text, floor, trusted)
        saved = sum(each.times for each in of if not asks(trial.verdict(each.call))) if trial else 0
        if saved < MIN_SAVED or attacks.running(trial) - running:
            continue
        aimed = attacks.aimed_at(trusted.kind, trusted.label)
        allows = tuple(each for each in aimed if not asks(trial.verdict(attacks.as_call(each, trial))))
        made.append(Suggestion(trusted, saved, allows, len(aimed)))
    return _best(sorted(made, key=lambda each: -each.saves))


def _best(made: list[Suggestion]) -> list[Suggestion]:
    """Return some suggestions of each kind, and no place within another."""
    chosen = {kind: [] for kind in (PROGRAM, PLACE, CODE_HOST)}
    most = {PROGRAM: MAX_PROGRAMS, PLACE: MAX_PLACES, CODE_HOST: 1}
    for each in made:
        kind, label = each.trusted.kind, each.trusted.label
        others = [other.trusted.label for other in chosen[kind]]
        nested = kind == PLACE and any(_is_below(label, other) or _is_below(other, label) for other in others)
        if len(others) < most[kind] and not nested:
            chosen[kind].append(each)
    return [each for kind in chosen for each in chosen[kind]]


def _candidates(found: list[Asked], judge: Judge):
    """Yield (what might be trusted, the calls that it might concern)."""
    if of := [each for each in found if each.network]:
        yield CODE_HOST_READS, of
    counted = Counter()
    for each in found:
        counted.update(dict.fromkeys(each.programs, each.times))
    for name, _ in counted.most_common(MAX_TRIED):
        of = [each for each in found if name in each.programs]
        if not is_known(name) and (file := judge.files.find(name) or _of_packages(name, of, judge)):
            yield program(name, file), of
    for path, _ in folders([(each.places, each.times) for each in found])[:MAX_TRIED]:
        yield place(path), [each for each in found if any(_is_below(p, path) for p in each.places)]


def _of_packages(name: str, of: list[Asked], judge: Judge) -> dict | None:
    roots = dict.fromkeys(judge.root_of(each.call) for each in of)
    return next(filter(None, (judge.files.find_package(name, root) for root in roots)), None)


def folders(asked: list[tuple[tuple, int]]) -> list[tuple[str, int]]:
    """Return (folder, times) of the paths that calls ask about: the deepest of those that cover the same calls."""
    counted = Counter()
    for paths, times in asked:
        around = {folder for path in paths for folder in _parents(path)}
        counted.update(dict.fromkeys(around, times))
    counted = Counter(dict(counted.most_common(MAX_FOLDERS)))
    best = [path for path, number in counted.items() if not _has_equal_child(path, number, counted)]
    return [(path, counted[path]) for path in sorted(best, key=lambda path: (-counted[path], path))]


def _has_equal_child(path: str, number: int, counted: Counter) -> bool:
    return any(other.startswith(f"{path}/") and counted[other] == number for other in counted)


def _parents(path: str):
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[:end]) for end in range(3, min(len(parts), 9) + 1)]


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")

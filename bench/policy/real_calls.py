"""How often a person would be asked on the shell calls of real coding sessions, by class of call and by reason.

The calls are a JSON-lines file of {command, n, agent, class}; it is not part of the repository. `HANDRAIL_REAL_CALLS`
or `--calls` names it; by default it is looked for in `shared/data` beside the checkout.
"""

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from approvals.evaluation.context.read_plans import NotRead, Repository, plan
from approvals.past.trust import folders
from approvals.policy import PolicyError, classify, default_policy, load_policy
from approvals.policy.programs.code_host import read_in
from approvals.policy.programs.registry import is_known

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- real calls: made by python -m bench.policy --write-docs -->", "<!-- end of real calls -->"
ALLOWED = ("low", "medium")
DIGEST = "0" * 64  # the calls come without the files of their programs, so every digest matches
NAMED = re.compile(r"(?:/repos/|\brepos/|-R |--repo[ =])([\w.-]+/[\w.-]+)")
OWN = 20  # calls that name a repository, after which it counts as that of a project and as confirmed by a person
OFTEN = 5  # calls after which a program or a place is worth an offer
SHELL_WORDS = ("export", "unset", "for", "alias", "declare")
CLASSES = {
    "ro": "reads",
    "build": "builds and tests",
    "other": "other",
    "git-local": "git, local",
    "gh-read": "reads at GitHub",
    "gh-write": "writes at GitHub",
    "write": "writes files",
    "delete": "deletes files",
    "proc": "scripts, processes",
    "push": "pushes",
    "git-net": "git fetch, pull, clone",
    "ro-danger": "reads, risky form",
    "pkg": "installs packages",
    "net": "other network",
}
REASONS = {
    "push": "pushes",
    "remote": "writes at the code host or elsewhere",
    "network": "contacts a host",
    "install": "fetches packages",
    "harmful": "ends processes, changes the machine",
    "delete": "deletes outside the workspace or what is protected",
    "write": "writes outside the workspace or what is protected",
    "read": "reads outside the workspace, or secrets",
    "start": "starts a program or program text",
    "unknown": "a program, an option or a form that is not known",
    "unclear": "variables or folders that are not certain",
    "hidden": "not the program that it names",
    "": "cannot be read as shell",
}


@dataclass
class Asked:
    """How many distinct calls ask, and how many with each counted as often as it came."""

    calls: Counter = field(default_factory=Counter)
    weight: Counter = field(default_factory=Counter)

    def add(self, key, n):
        self.calls[key] += 1
        self.weight[key] += n


def find_calls(named=None):
    """Return the path of the calls, or None."""
    places = [named, os.environ.get("HANDRAIL_REAL_CALLS"), *(up / "shared/data" for up in ROOT.parents)]
    for place in map(Path, filter(None, places)):
        path = place / "real_commands.jsonl" if place.is_dir() else place
        if path.is_file():
            return path
    return None


def read_calls(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@cache
def _policy(text):
    return load_policy(text)


class OfAProject(Repository):
    """The repository of a project, whose files the calls come without: each folder is in it, and a branch is known."""

    def check_is_in(self, cwd, folder):
        pass

    def branch(self):
        return "main"


def own_repositories(calls):
    """Return {remote: URL} of the repositories that the projects of these calls seem to have."""
    named = Counter()
    for call in calls:
        for name in set(NAMED.findall(call["command"])):
            named[name] += 1
    return {f"origin{n}": f"https://github.com/{name}" for n, name in enumerate(named) if named[name] >= OWN}


def _is_run_outside(verdict, remotes):
    """Return whether all reads at the code host in a call are at one of these remotes, as the product checks."""
    repository = OfAProject(Path("/"), remotes | {"origin": next(iter(remotes.values()))}, {})
    repository.now.update(repository.seen)
    try:
        for step in verdict.commands:
            if step["code_host_read"]:
                read = read_in(step["words"])
                if read is None or (read.program != "git" and not plan(read, "/", repository)):
                    return False
    except NotRead:
        return False
    return True


def _judged(question):
    command, text, context = question
    verdict = classify("Bash", {"command": command}, policy=_policy(text), context=context)
    if verdict.code_host_read and context.get("remotes") and not _is_run_outside(verdict, context["remotes"]):
        verdict = classify("Bash", {"command": command}, policy=_policy(text), context=context | {"code_host": False})
    steps = [step for step in verdict.commands if step["tier"] not in ALLOWED]
    asking = [(step["words"][:2], step["cwd"], [*step["targets"], *step["words"][1:]]) for step in steps]
    return verdict.tier, [step["kind"] for step in steps], asking


def judge_all(calls, text, context):
    """Return (tier, kinds of the effects that ask, their programs, folders and paths) of each call."""
    with ProcessPoolExecutor() as workers:
        return list(workers.map(_judged, [(call["command"], text, context) for call in calls], chunksize=50))


def offered(calls, verdicts):
    """Return (words, places): what a person would be offered to trust after these calls, by how often it asked."""
    words, places, paths = Counter(), Counter(), []
    for call, (_, _, steps) in zip(calls, verdicts, strict=True):
        named = {word for (*before, word), *_ in ((step[0][:1], 0) for step in steps if step[0]) if not before}
        named |= {step[0][1] for step in steps if step[0][:1] in (["bash"], ["sh"], ["python3"]) and len(step[0]) > 1}
        named |= {step[0][1] for step in steps if step[0][:1] == ["npx"] and len(step[0]) > 1}
        for word in named:
            words[word] += call["n"]
        for folder in {cwd for _, cwd, _ in steps if cwd and _is_elsewhere(cwd)}:
            places[folder] += call["n"]
        named = {path for _, _, texts in steps for path in texts if path.isprintable() and _is_elsewhere(path)}
        paths.append((tuple(sorted(named)), call["n"]))
    for folder, times in folders(paths):
        places[folder] = max(places[folder], times)
    return (
        [word for word, n in words.items() if n >= OFTEN and _trustable(word)],
        [place for place, n in places.items() if n >= OFTEN and _loads(f"trust.places = [{json.dumps(place)}]")],
    )


def _is_elsewhere(path):
    return path.startswith("/") and not f"{path}/".startswith("/workspace/")


def _trustable(word):
    """Return True for a program by its bare name, and for a script, but not for what each build makes anew."""
    if (
        is_known(word)
        or word in SHELL_WORDS
        or not re.fullmatch(r"[\w.+-]+|(?!/tmp/)[\w./-]+\.(?:sh|py|js|mjs|rb)", word)
    ):
        return False
    return _loads(f"trust.programs = [{_entry(word)}]")


def _entry(word):
    name = word.rsplit("/", 1)[-1]
    return f'{{name = {json.dumps(name)}, path = {json.dumps("/opt/project/" + name)}, sha256 = "{DIGEST}"}}'


def _loads(text):
    try:
        return bool(load_policy(text))
    except PolicyError:
        return False


def with_trust(words, places, folders_of_calls=("/workspace",)):
    """Return (policy, context) that trust these programs and places, and reads at the code host.

    `folders_of_calls`: where `npx` starts one of the programs as a package of the project.
    """
    entries = ",\n".join(dict.fromkeys(map(_entry, words)))
    text = f"{default_policy()}\n[trust]\ncode_host = true\nplaces = {json.dumps(places)}\nprograms = [{entries}]\n"
    bare = [word for word in words if "/" not in word]
    packaged = [f"{folder}/node_modules/.bin/{word}" for folder in folders_of_calls for word in bare]
    files = {
        word: {"path": "/opt/project/" + word.rsplit("/", 1)[-1], "sha256": DIGEST} for word in (*words, *packaged)
    }
    return text, {"programs": files}


def nah_decisions(calls, python):
    """Return what the package `nah` decides on each call, run by the Python of an environment that has it."""
    with tempfile.TemporaryDirectory() as folder:
        # The project is the folder that it runs in, and no settings of the person that runs it count.
        subprocess.run(["git", "init", "-q", folder], check=True)
        lines = "\n".join(json.dumps(call["command"].replace("/workspace", folder)) for call in calls)
        driver = Path(__file__).with_name("nah_driver.py")
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        done = subprocess.run(
            [python, driver], input=lines, capture_output=True, text=True, check=True, cwd=folder, env=environment
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(calls, nah_python=None):
    """Return {column: (asked by class, asked by reason)}, and what the third column trusts."""
    default = default_policy()
    plain = judge_all(calls, default, {})
    words, places = offered(calls, plain)
    steps = [step for _, _, asking in plain for step in asking]
    text, context = with_trust(words, places, sorted({cwd for named, cwd, _ in steps if named[:1] == ["npx"] and cwd}))
    verdicts = {
        "held": judge_all(calls, default, {"held": True, "remotes": own_repositories(calls)}),
        "not held": plain,
        "not held, trusted": judge_all(calls, text, context),
    }
    found = {name: _counted(calls, given) for name, given in verdicts.items()}
    if nah_python:
        decided = [("low" if said == "allow" else "high", [], []) for said in nah_decisions(calls, nah_python)]
        found["nah"] = _counted(calls, decided)
    return found, {"programs": words, "places": places}


def _counted(calls, verdicts):
    by_class, by_reason = Asked(), Asked()
    for call, (tier, kinds, _) in zip(calls, verdicts, strict=True):
        if tier in ALLOWED:
            continue
        by_class.add(call["class"], call["n"])
        by_reason.add(next((kind for kind in REASONS if kind in kinds), ""), call["n"])
    return by_class, by_reason


def tables(calls, found, trusted):
    """Return the figures as Markdown."""
    total, weight = len(calls), sum(call["n"] for call in calls)
    sizes = Counter(call["class"] for call in calls)
    names = list(found)
    head = "| | calls | " + " | ".join(names) + " |\n| --- | --: |" + " --: |" * len(names)
    share = [f"{sum(found[name][0].calls.values()) / total:.1%}" for name in names]
    weighted = [f"{sum(found[name][0].weight.values()) / weight:.1%}" for name in names]
    lines = [head, _row("**all distinct calls**", total, share), _row("**each as often as it came**", weight, weighted)]
    lines += [
        _row(CLASSES.get(name, name), size, [f"{found[column][0].calls[name] / size:.0%}" for column in names])
        for name, size in sizes.most_common()
    ]
    own = [name for name in names if name != "nah"]
    lines += [
        "",
        "| asks because it … (% of all distinct calls) | " + " | ".join(own) + " |",
        "| --- |" + " --: |" * len(own),
    ]
    for kind, says in REASONS.items():
        shares = [found[column][1].calls[kind] / total for column in own]
        if any(shares):
            lines.append(f"| {says} | " + " | ".join(f"{each:.1%}" for each in shares) + " |")
    counted = f"Trusted in the last column: {len(trusted['programs'])} programs and scripts, {len(trusted['places'])}"
    return "\n".join([*lines, "", f"{counted} places that asked {OFTEN} times or more, and reads at the code host."])


def _row(title, size, shares):
    return f"| {title} | {size:,} | " + " | ".join(shares) + " |"


def write_docs(text, path=ROOT / "docs/policy.md"):
    """Replace the block between the markers of a document."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")

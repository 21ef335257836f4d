"""Choose the kind of evidence for a call and gather it."""

from functools import partial

from approvals.evaluation.calls import parsed, root_of
from approvals.evaluation.own_verbs import OWN_VERBS, PUSHES, OwnVerb, gathers
from approvals.policy.patches import TOOL
from dashboard.problems import Problem
from workspaces.changes import history

from . import changes, deletes, installs, network, patches, pushes, take_back  # noqa: F401 - take_back registers itself
from .argv import git_verb
from .deletes import Place
from .findings import EVIDENCE_TIMEOUT, UNKNOWN, Evidence, Finding, TimeLimit

MAX_STEPS = 20  # sub-commands that evidence is gathered for


def is_quick(action, revision) -> bool:
    """Return whether the evidence takes no more than the call itself or one file."""
    if action.tool == TOOL:
        return True
    if own := OWN_VERBS.get(action.tool):
        return own.is_quick
    steps = [_whole(step) for step in revision.commands]
    return not any(deletes.is_delete(step) or pushes.is_push(step) or _sends_file(step) for step in steps)


def _sends_file(step: dict) -> bool:
    return step["what"] in ("remote", "network") and any(word.startswith("@") or "=@" in word for word in step["words"])


def evidence_of(action, revision, seconds: float = EVIDENCE_TIMEOUT) -> Evidence:
    """Return what the revision would do, as far as that is known within some seconds; never raises."""
    time_limit, call = TimeLimit(min(seconds, EVIDENCE_TIMEOUT)), parsed(revision.canonical)
    if change := changes.change_of(action.tool, call["arguments"]):
        return changes.file_evidence(action, call, *change, time_limit=time_limit)
    if action.tool == TOOL:
        return changes.patch_evidence(call["arguments"])
    workspace = action.workspace
    place = Place(workspace, root_of(workspace), time_limit) if workspace else None
    if own := OWN_VERBS.get(action.tool):
        gather = partial(_of_own_verb, own, place, call["arguments"], action.title)
        return Evidence("", findings=[_careful(action.title, 1, gather)])
    if action.tool == "WebFetch":
        return Evidence("", findings=[network.fetch(call["arguments"], action.title)])
    steps = [_whole(step) for step in revision.commands] if action.tool == "Bash" else []
    told = [(step, _of_step(place, steps, at)) for at, step in enumerate(steps[:MAX_STEPS])]
    findings = [found for _, found in told if found]
    if not findings:
        return Evidence(UNKNOWN)
    is_known = len(steps) <= MAX_STEPS and all(found or _is_plain(step) for step, found in told)
    says = "" if is_known else "What its other parts do is unknown until they run."
    return Evidence(says, findings=findings, numbered=len(steps) > 1)


def _is_plain(step: dict) -> bool:
    """Return whether a sub-command needs no evidence: it only reads, or is a git command of kind "run"."""
    return step.get("tier") == "low" or (step["what"] == "run" and bool(git_verb(step["words"])))


def sent_by(action, revision, line: int) -> list:
    """Return [(branch, [FileDiff], whether it is cut)] for the push in sub-command `line`. Raise Problem."""
    if action.workspace is None:
        return []
    place = Place(action.workspace, root_of(action.workspace), TimeLimit())
    if action.tool in PUSHES:
        told = pushes.patches_out(place, parsed(revision.canonical)["arguments"])
    else:
        steps = [_whole(step) for step in revision.commands]
        at = next((at for at, step in enumerate(steps) if step["line"] == line and pushes.is_push(step)), None)
        told = pushes.patches_of(place, steps, at) if at is not None else []
    return [(branch, patches.diffs_of(patch), is_cut) for branch, patch, is_cut in told]


def _of_step(place, steps: list[dict], at: int) -> Finding | None:
    """Return the finding for one sub-command; None if there is no evidence for its kind."""
    step = steps[at]
    if deletes.is_delete(step):
        gather = deletes.delete if place else None
    elif pushes.is_push(step):
        gather = (lambda place, step: pushes.push(place, steps, at)) if place else None
    elif step["what"] == "install":
        gather = installs.install
    elif step["what"] in ("network", "remote"):
        gather = network.contact
    elif step["what"] == "write" and step["names"]:
        return Finding(step["line"], step["text"], ["Writes:"], names=step["names"])
    else:
        return None
    if gather is None:
        says = "It runs outside any workspace, so Handrail can't tell what it would change."
        return Finding(
            step["line"], step["text"], [says, "It names:"] if step["targets"] else [says], names=step["targets"]
        )
    return _careful(step["text"], step["line"], lambda: gather(place, step))


def _careful(text: str, line: int, gather) -> Finding:
    """Call `gather`; on a Problem return a finding with its message, so that a card never fails."""
    try:
        return gather()
    except Problem as problem:
        return Finding(line, text, [f"{UNKNOWN} {problem.detail}"])


def _whole(step: dict) -> dict:
    """Return an entry of a revision's `commands` with defaults for keys that old revisions lack."""
    return {"line": 1, "text": "", "words": [], "what": "run", "targets": [], "names": [], "cwd": ""} | step


def _of_own_verb(own: OwnVerb, place, arguments: dict, text: str) -> Finding:
    return own.gather(place, arguments, text) if own.gather else Finding(1, text, [own.effect])


def _put_back(place, number) -> list[str]:
    """Return a sentence with the number of files that differ between the live tree and a snapshot."""
    there = history.find_snapshot(place.workspace, number).tree_hex
    now = place.ask("tree", {})["tree"]
    files = len(history.rows_of(history.store_of(place.workspace), (now, there)))
    counted = "1 file differs" if files == 1 else f"{files:,} files differ" if files else "No file differs"
    return [f"{counted} from snapshot {number} now."]


@gathers("Handrail.Restore")
def _restore(place, arguments: dict, text: str) -> Finding:
    return Finding(1, text, _put_back(place, arguments.get("snapshot")))


@gathers("Handrail.Reset")
def _reset(place, arguments: dict, text: str) -> Finding:
    baseline = place.workspace.baseline
    return Finding(1, text, _put_back(place, baseline.number) if baseline else [UNKNOWN])


@gathers("Handrail.Allow", is_quick=True)
def _allow(place, arguments: dict, text: str) -> Finding:
    tries = place.workspace.contacts.filter(allowed=False, phase=arguments.get("phase", "agent"))
    host, _, port = arguments.get("host", "").partition(":")
    tries = tries.filter(host=host, **({"port": port} if port.isdecimal() else {}))
    counted = sum(tries.values_list("count", flat=True))
    tried = (
        f"Its programs tried to reach it {counted:,} times." if counted else "Its programs have not tried to reach it."
    )
    says = [f"Programs in the {arguments.get('phase', 'agent')} phase can send any data there. {tried}"]
    return Finding(1, text, says, names=[arguments.get("host", "")])


@gathers("Handrail.Remove")
def _remove(place, arguments: dict, text: str) -> Finding:
    finding = Finding(1, text, [])
    deletes.say_weight(finding, place.ask("tree-stats", {"patterns": [arguments["path"]]}), "Deletes")
    return finding

"""Evidence by verb: which kind of evidence fits a call, and what it comes to."""

from itertools import islice

from approvals.calls import parsed, root_of
from dashboard.problems import Problem
from workspaces import history
from workspaces.store.objects import FOLDER

from . import changes, deletes, installs, network, pushes
from .deletes import Place
from .findings import UNKNOWN, Evidence, Finding, Patience

MOST_CHANGES = 10_000  # of a restore; beyond it is "at least"
MOST_STEPS = 20  # sub-commands that evidence is gathered for
WROTE = {"write": "Writes", "remote": "Sends to"}


def is_quick(action, revision) -> bool:
    """Nothing but the call itself, or one file, has to be looked at."""
    if action.tool in ("Handrail.Delete", "Handrail.Push", "Handrail.Restore", "Handrail.Reset"):
        return False
    steps = [_whole(step) for step in revision.commands]
    return not any(deletes.is_delete(step) or pushes.is_push(step) or _sends_file(step) for step in steps)


def _sends_file(step: dict) -> bool:
    return step["what"] in ("remote", "network") and any(word.startswith("@") or "=@" in word for word in step["words"])


def evidence_of(action, revision) -> Evidence:
    """What this revision would do, as far as it can be known now; takes two seconds at most, and never raises."""
    patience, call = Patience(), parsed(revision.canonical)
    if change := changes.change_of(action.tool, call["arguments"]):
        return changes.file_evidence(action, call, *change, patience=patience)
    workspace = action.workspace
    place = Place(workspace, root_of(workspace), patience) if workspace else None
    if own := OWN.get(action.tool):
        return Evidence("", findings=[_careful(action.title, 1, lambda: own(place, call["arguments"], action.title))])
    if action.tool == "WebFetch":
        return Evidence("", findings=[network.fetch(call["arguments"], action.title)])
    steps = [_whole(step) for step in revision.commands] if action.tool == "Bash" else []
    findings = [found for step in steps[:MOST_STEPS] if (found := _of_step(place, step))]
    if not findings:
        return Evidence(UNKNOWN)
    if len(steps) > len(findings):
        unknown = "What else it does is not known before it runs."
        return Evidence(unknown, findings=findings, numbered=True)
    return Evidence("", findings=findings, numbered=len(steps) > 1)


def _of_step(place, step: dict) -> Finding | None:
    """The finding for one sub-command; None when nothing can be said of it."""
    if deletes.is_delete(step):
        gather = deletes.delete if place else None
    elif pushes.is_push(step):
        gather = pushes.push if place else None
    elif step["what"] == "install":
        gather = installs.install
    elif step["what"] in ("network", "remote"):
        gather = network.contact
    elif step["what"] in WROTE and step["targets"]:
        return Finding(step["line"], step["text"], [f"{WROTE[step['what']]}:"], names=step["targets"])
    else:
        return None
    if gather is None:
        says = "It works outside every workspace, so what it would touch is not known here."
        return Finding(
            step["line"], step["text"], [says, "It names:"] if step["targets"] else [says], names=step["targets"]
        )
    return _careful(step["text"], step["line"], lambda: gather(place, step))


def _careful(text: str, line: int, gather) -> Finding:
    """A finding that says so where the runner cannot be asked: a card never fails for want of evidence."""
    try:
        return gather()
    except Problem as problem:
        return Finding(line, text, [f"{UNKNOWN} {problem.detail}"])


def _whole(step: dict) -> dict:
    """An entry of a revision's `commands` with everything in it; those of old ones may lack some."""
    return {"line": 1, "text": "", "words": [], "what": "run", "targets": [], "cwd": ""} | step


def _put_back(place, number) -> list[str]:
    """How many files differ between now and a snapshot."""
    there = history.find_snapshot(place.workspace, number).tree_hex
    now = place.ask("tree", {})["tree"]
    found = history.store_of(place.workspace).diff(now, there)
    files = sum(1 for change in islice(found, MOST_CHANGES) if (change.new or change.old).kind != FOLDER)
    least = "At least " if files >= MOST_CHANGES - 1 else ""
    counted = "1 file differs" if files == 1 else f"{files:,} files differ" if files else "No file differs"
    return [f"{least}{counted} from snapshot {number} now."]


def _restore(place, arguments: dict, text: str) -> Finding:
    return Finding(1, text, _put_back(place, arguments.get("snapshot")))


def _reset(place, arguments: dict, text: str) -> Finding:
    baseline = place.workspace.baseline
    return Finding(1, text, _put_back(place, baseline.number) if baseline else [UNKNOWN])


def _allow(place, arguments: dict, text: str) -> Finding:
    tries = place.workspace.contacts.filter(allowed=False, phase=arguments.get("phase", "agent"))
    host, _, port = arguments.get("host", "").partition(":")
    tries = tries.filter(host=host, **({"port": port} if port.isdecimal() else {}))
    counted = sum(tries.values_list("count", flat=True))
    tried = f"Its programs tried {counted:,} times." if counted else "Its programs have not tried yet."
    says = [f"Programs in the {arguments.get('phase', 'agent')} phase may send anything there. {tried}"]
    return Finding(1, text, says, names=[arguments.get("host", "")])


OWN = {
    "Handrail.Allow": _allow,
    "Handrail.Delete": lambda place, arguments, text: deletes.whole(place, text),
    "Handrail.Push": pushes.push_out,
    "Handrail.Restore": _restore,
    "Handrail.Reset": _reset,
}

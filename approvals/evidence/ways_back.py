"""The way back from what a call does outside: which refs, numbers and packages it changes there, and what undoes that.

Nothing here contacts a source or a code host: the runner does (approvals.broker.way_back).
"""

from dataclasses import dataclass, field

from approvals.evaluation.own_verbs import PUSHES
from approvals.evidence import host_effects, publishes, pushes
from approvals.policy.shell_words import OPAQUE
from dashboard.problems import Problem

TAKEN = ("no", "unknown")  # values of `undo` of the sub-commands that a way back is sought for
LISTED_ELSEWHERE = "It pushes other branches or tags, unknown until it runs."
NO_REMOTE = "Handrail can't tell where it pushes."


@dataclass(frozen=True)
class Ref:
    """A branch or tag that a push sets at `remote`. `ref` "": `name` is deleted, a branch or a tag.

    `sha`: the commit that is pushed, "" if that is not known; `forced`: what is there may be unreachable afterwards.
    """

    remote: str
    ref: str
    name: str
    sha: str = ""
    forced: bool = False


@dataclass
class Sought:
    """What a call changes outside. `why_not`: what of it cannot be taken back, as sentences.

    `commands` are (command, cwd, words) of a shell call that takes it back.
    """

    refs: list[Ref] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)
    commands: list[tuple[str, str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)  # of releases, which a code host makes with them
    why_not: list[str] = field(default_factory=list)

    @property
    def is_something(self) -> bool:
        return bool(self.refs or self.steps or self.commands)


def is_sought(tool: str, commands: list) -> bool:
    """Return whether a call does something outside that there may be a way back from."""
    if tool in PUSHES:
        return True
    return tool == "Bash" and any(_is_known(step) for step in commands if isinstance(step, dict) and _leaves(step))


def _leaves(step: dict) -> bool:
    return step.get("undo") in TAKEN and bool(step.get("words"))


def _is_known(step: dict) -> bool:
    return pushes.is_push(step) or host_effects.is_at_host(step) or publishes.is_publish(step)


def sought(place, tool: str, arguments: dict, commands: list, *, is_over: bool = False) -> Sought:
    """Return what there may be a way back from. `is_over`: the call ran, so its commits are made."""
    found, source = Sought(), place.workspace.remote or ""
    if tool in PUSHES:
        branch = arguments.get("branch", "")
        found.refs.append(Ref(source, f"refs/heads/{branch}", branch))
        if tool == "Handrail.PullRequest":
            found.steps.append({"do": "close_pull_request", "number": None, "repository": source})
        return found
    for at, step in enumerate(commands):
        if not _leaves(step):
            continue
        if pushes.is_push(step):
            _of_push(found, place, commands, at, is_over)
        elif host_effects.is_at_host(step):
            effect = host_effects.effect_of(step, source)
            found.steps += effect.steps
            found.tags += [effect.tag] if effect.tag else []
            found.why_not += [_of_part(step, effect.why_not)] if effect.why_not else []
        elif publishes.is_publish(step):
            command, words, why_not = publishes.way_back(place, step, commands[:at])
            found.commands += [(command, step.get("cwd") or place.root, words)] if command else []
            found.why_not += [_of_part(step, why_not)] if why_not else []
        else:
            found.why_not.append(_of_part(step, "There is no way back."))
    return found


def _of_part(step: dict, why: str) -> str:
    text = step.get("text", "").replace(OPAQUE, "…")
    return f"{text if len(text) <= 60 else text[:60] + '…'}: {why}"


def _of_push(found: Sought, place, commands: list, at: int, is_over: bool):
    step = commands[at]
    question, parsed = pushes.question_of(step, place.root)
    if parsed.has("-n", "--dry-run"):
        return
    if question is None or parsed.has(*pushes.ALL, "--follow-tags", "--prune"):
        found.why_not.append(_of_part(step, NO_REMOTE if question is None else LISTED_ELSEWHERE))
        return
    earlier = [] if is_over else pushes.commits.before(commands, at, question["folder"], place.root)[0]
    try:
        told = place.ask("git-push", question | {"steps": earlier})
    except Problem as problem:
        told = {"error": problem.detail}
    if "error" in told or told.get("more") or not told.get("sends"):
        found.why_not.append(_of_part(step, told.get("error") or NO_REMOTE))
        return
    addresses = told["addresses"] if told["known"] else [told["remote"]]
    forced = parsed.has("-f", "--force", "--force-with-lease", "--force-if-includes", "-d", "--delete")
    for sent in told["sends"]:
        if sent.get("says") and sent["says"] != "removed there":
            found.why_not.append(_of_part(step, f"{sent['to']}: {sent['says']}."))
            continue
        sha = "" if told.get("made") else sent.get("sha", "")
        is_forced = bool(forced or sent["forced"] or "says" in sent)
        found.refs += [Ref(address, sent["ref"], sent["to"], sha, is_forced) for address in addresses]

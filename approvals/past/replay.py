"""Judge calls of the past with a policy as it is now, as if they came in again."""

from dataclasses import dataclass, field

from approvals.past.calls import PastCall
from approvals.past.program_files import ProgramFiles
from approvals.policy import Policy, Verdict, classify
from approvals.policy.verdict import ALLOWING

# {what a sub-command does (approvals.policy.verdict): heading of the calls that ask because of it}.
HEADINGS = {
    "run": "Programs",
    "start": "Programs that start others",
    "unknown": "Programs that Handrail doesn't know",
    "read": "Reads outside the workspace, or of secrets",
    "write": "Writes outside the workspace, or of protected files",
    "delete": "Deletions",
    "network": "Network",
    "push": "Pushes",
    "remote": "Changes on other machines",
    "install": "Packages",
    "local": "Other programs of this machine",
    "harmful": "Harmful commands",
}
UNREADABLE = "Commands that can't be read"


@dataclass
class Asked:
    """A call that the policy asks about or forbids, how often it came, and why."""

    call: PastCall
    times: int
    tier: str
    reasons: list
    heading: str
    programs: tuple = ()  # bare names of the programs that ask
    places: tuple = ()  # absolute paths that its parts read or write
    network: bool = False  # one of its parts asks because it contacts another machine


@dataclass
class Judge:
    """A policy with the world that calls run in. `roots`: the folders that are workspaces; without, each session's."""

    policy: Policy
    home: str
    files: ProgramFiles
    roots: tuple = ()
    confirmed: dict = field(default_factory=dict)  # {bare name: file} of trusted programs, for the policy's context

    def root_of(self, call: PastCall) -> str:
        """Return the workspace of a call: the innermost of the folders that its session began in or below."""
        around = [root for root in self.roots if f"{call.root}/".startswith(f"{root}/")]
        return max(around, key=len, default=call.root)

    def verdict(self, call: PastCall) -> Verdict:
        """Judge one call; the programs that the policy trusts are looked up as the gate does."""
        root = self.root_of(call) or None
        world = {"cwd": call.cwd or root, "workspace_root": root, "home": self.home}
        context = {"programs": self._confirmed() | self._packaged(root or "")} if self.policy.trust.programs else None
        return classify(call.tool, call.arguments, policy=self.policy, context=context, **world)

    def _confirmed(self) -> dict:
        if not self.confirmed:
            found = {each.name: self.files.find(each.name) for each in self.policy.trust.programs}
            self.confirmed = {name: file for name, file in found.items() if file}
        return self.confirmed

    def _packaged(self, root: str) -> dict:
        names = [each.name for each in self.policy.trust.programs]
        found = {f"{root}/node_modules/.bin/{name}": self.files.find_package(name, root) for name in names}
        return {word: file for word, file in found.items() if file}


def asks(verdict: Verdict) -> bool:
    return verdict.tier not in ALLOWING


def replay(calls: list[tuple[PastCall, int]], judge: Judge, progress=None) -> list[Asked]:
    """Return the calls that ask, the most frequent first. `progress(done, of)` is called now and then."""
    found = []
    for done, (call, times) in enumerate(calls):
        if progress and done % 50 == 0:
            progress(done, len(calls))
        verdict = judge.verdict(call)
        if asks(verdict):
            found.append(_asked(call, times, verdict, judge.root_of(call)))
    if progress:
        progress(len(calls), len(calls))
    return sorted(found, key=lambda each: (-each.times, each.call.tool, each.call.text))


def _asked(call: PastCall, times: int, verdict: Verdict, root: str) -> Asked:
    parts = [part for part in verdict.commands if part["tier"] not in ALLOWING]
    names = [_program(part["words"]) for part in parts if part["words"]]
    targets = [path for part in parts if part["what"] in ("read", "write", "delete", "run") for path in _paths(part)]
    return Asked(
        call,
        times,
        verdict.tier,
        verdict.reasons,
        _heading(call, parts),
        tuple(dict.fromkeys(names)),
        tuple(dict.fromkeys(path for path in [*targets, *_own_paths(call)] if not f"{path}/".startswith(f"{root}/"))),
        any(part["what"] == "network" for part in parts),
    )


def _program(words: list) -> str:
    """Return the name of the program that a command starts, which behind npx is one of the project's packages."""
    packaged = words[0] in ("npx", "bunx") and len(words) > 1
    return words[1] if packaged else words[0].rsplit("/", 1)[-1]


def _heading(call: PastCall, parts: list) -> str:
    if call.tool != "Bash":
        return f"Tool {call.tool[:60]}"
    if not parts:
        return UNREADABLE
    what, words = parts[0]["what"], parts[0]["words"]
    name = words[0].rsplit("/", 1)[-1][:40] if words else ""
    return f"{HEADINGS.get(what, UNREADABLE)}: {name}" if name else HEADINGS.get(what, UNREADABLE)


def _paths(part: dict):
    """Yield the absolute paths that a sub-command names, and the folder that it goes to."""
    for text in (*part["targets"], *part["words"][1:]):
        if text.startswith("/") and text.isprintable():
            yield text


def _own_paths(call: PastCall):
    """Yield the absolute path that a file tool names."""
    if call.tool != "Bash" and call.text.startswith("/") and call.text.isprintable():
        yield call.text

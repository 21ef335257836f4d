"""Take seeds to findings: make the command, judge it, run what the policy lets run, and compare."""

from dataclasses import dataclass, field

from approvals.policy import Policy, classify

from . import grammar, ground, mutate, oracle

POLICY = Policy()  # the mode of a new team, and no rule
# What the product knows of the files there.
CONTEXT = {
    "secrets": [
        path.removeprefix(f"{ground.WORKSPACE}/") for path in ground.SECRETS if path.startswith(ground.WORKSPACE)
    ],
    "symlinks": ground.LINKS,
}
BATCH = 400  # commands that one box runs


@dataclass
class Finding:
    """A command that did what its verdict did not say."""

    seed: int
    shell: str
    command: str
    tier: str
    differences: list  # [(class, what)]

    @property
    def classes(self):
        return sorted({name for name, _ in self.differences})


@dataclass
class Figures:
    """Counts of a run."""

    cases: int = 0
    allowed: int = 0
    timed_out: int = 0
    findings: list = field(default_factory=list)


def command_of(seed, commands):
    """Return the command of a seed: three of four from the grammar, the others changed from known commands."""
    return mutate.text_of(seed, commands) if commands and seed % 4 == 3 else grammar.text_of(seed)


def judged(command):
    return classify("Bash", {"command": command}, policy=POLICY, context=CONTEXT)


def hunt(box, seeds, commands):
    """Return the Figures of these seeds."""
    figures, waiting = Figures(), {}
    for seed in seeds:
        figures.cases += 1
        command = command_of(seed, commands)
        if "\0" in command:
            continue
        verdict = judged(command)
        if "the policy engine failed" in verdict.reasons[0]:
            failure = ("makes the policy engine fail", verdict.reasons[0])
            figures.findings.append(Finding(seed, "/bin/bash", command, verdict.tier, [failure]))
        if verdict.tier in oracle.ALLOWING:
            waiting[seed] = (command, verdict)
        if len(waiting) == BATCH:
            _run(box, waiting, figures)
            waiting = {}
    _run(box, waiting, figures)
    return figures


def _run(box, waiting, figures):
    cases = [{"number": seed, "shell": "/bin/bash", "command": command} for seed, (command, _) in waiting.items()]
    for case, deed in box.run(cases):
        figures.allowed += 1
        figures.timed_out += deed.result["timed_out"]
        command, verdict = waiting[case["number"]]
        differences = oracle.findings(verdict, deed)
        if differences:
            figures.findings.append(Finding(case["number"], case["shell"], command, verdict.tier, differences))

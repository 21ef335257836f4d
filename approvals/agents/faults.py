"""The ways in which an agent's hook can fail. Each dialect says whether its agent then runs the tool."""

from django.utils.translation import gettext_lazy

RUNS, BLOCKED = "runs", "blocked"
WORDS = {
    "exit 1": gettext_lazy("the hook ends with status 1"),
    "killed": gettext_lazy("the hook's shell is killed"),
    "missing": gettext_lazy("the hook's program is not there"),
    "empty": gettext_lazy("the hook prints nothing"),
    "late": gettext_lazy("the hook takes longer than its time-out"),
    "ask": gettext_lazy("the hook answers “ask” without a person at the terminal"),
}
FAULTS = tuple(WORDS)

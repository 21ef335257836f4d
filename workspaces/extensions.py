"""Extension points for the apps above this one, which register here because workspaces must not import them.

`approvals.apps` sets `ask_a_person` when Django is ready; `manage.py runner` adds the rest before the daemon starts.
"""

from collections.abc import Callable

# (caller, AskFirst, idempotency key) -> {action, status, url, …}: create an action for a person to decide on.
ask_a_person: Callable | None = None

kinds: dict[str, object] = {}  # further kinds of operations, by Operation.kind
sweeps: list[Callable] = []  # the runner calls each every few seconds
system_files: list[Callable] = []  # (workspace) -> {path below /etc: content} for the agent's programs
encrypted: list[Callable] = []  # () -> (queryset, function to the associated data): columns `value` that rotation moves

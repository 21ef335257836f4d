"""Remove the values of secrets that this process has handled from whatever it logs or records.

Only the runner handles any, and web when it cleans an agent's report; elsewhere this costs one comparison.
"""

import threading

from dashboard.keys.secret_forms import encoded_forms

MAX_VALUES = 500  # values remembered; the oldest are dropped first

_lock = threading.Lock()
_hidden: dict[str, list[tuple[str, str]]] = {}  # value: [(form, its replacement)]


def hide(values: dict[str, str]):
    """Remember secrets to remove, as {name: value}."""
    with _lock:
        for name, value in values.items():
            if value not in _hidden and (forms := encoded_forms(value.encode())):
                _hidden[value] = [(form.decode("utf-8", "surrogateescape"), f"[secret {name}]") for form in forms]
        while len(_hidden) > MAX_VALUES:
            del _hidden[next(iter(_hidden))]


def clean(found):
    """Return the text, or plain JSON with all its texts, without the values."""
    if not _hidden:
        return found
    if isinstance(found, str):
        for forms in list(_hidden.values()):
            for form, words in forms:
                if form in found:
                    found = found.replace(form, words)
        return found
    if isinstance(found, dict):
        return {clean(name): clean(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [clean(value) for value in found]
    return found

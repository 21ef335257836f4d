"""The values of secrets that this process has had in hand, taken out of whatever it logs or records.

Only the runner ever has any; elsewhere this costs one comparison.
"""

import threading

from workspaces.disguises import disguises

MOST = 500  # values that are remembered; the oldest go first

_lock = threading.Lock()
_hidden: dict[str, list[tuple[str, str]]] = {}  # value: (form, what stands for it)


def hide(values: dict[str, str]):
    """Remember {name: value}."""
    with _lock:
        for name, value in values.items():
            if value not in _hidden and (forms := disguises(value.encode())):
                _hidden[value] = [(form.decode("utf-8", "surrogateescape"), f"[secret {name}]") for form in forms]
        while len(_hidden) > MOST:
            del _hidden[next(iter(_hidden))]


def clean(found):
    """The text, or all texts of plain JSON, without the values."""
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

"""The shell's state while a script is read: possible folders and variables, and how two branches are joined."""

from dataclasses import dataclass, replace

from .shell import Unreadable
from .shell_words import OPAQUE, Word
from .step_budget import spend

MAX_FOLDERS = 16


@dataclass
class Scope:
    """`cwds`: possible folders. `maybe`: the states that hold if a command of the current `&&` list failed."""

    cwds: tuple
    variables: dict
    maybe: tuple = ()
    moved: bool = False

    def copy(self):
        """Return the state that holds if all commands so far succeeded."""
        spend(1 + len(self.variables) // 4)
        return Scope(self.cwds, dict(self.variables), (), self.moved)

    def same(self, other):
        """Return True if both hold the same folders and variables."""
        spend(1 + len(self.variables) // 4)
        return (self.cwds, self.moved, self.variables) == (other.cwds, other.moved, other.variables)

    def forget(self, names):
        """Make these variables unknown; if one of them may come from the environment, so may the others."""
        spend(len(names))
        known = [self.variables.get(name) for name in names]
        foreign = any(word is None or word.foreign for word in known)
        fetched = next((word.fetched for word in known if word and word.fetched), "")
        unknown = Word(OPAQUE, opaque=True, splits=True, foreign=foreign, fetched=fetched)
        self.variables.update(dict.fromkeys(names, unknown))


def joined(scopes):
    """Return the state of which only one of these is known to hold: variables that differ are unknown."""
    first, *others = scopes
    if not others:
        return first.copy()
    cwds = tuple(dict.fromkeys(cwd for scope in scopes for cwd in scope.cwds))
    if len(cwds) > MAX_FOLDERS:
        raise Unreadable("it may run in more folders than can be judged")
    spend(1 + sum(len(scope.variables) for scope in scopes) // 2)
    names = dict.fromkeys(name for scope in scopes for name in scope.variables)
    variables = {name: _either(name, [scope.variables.get(name) for scope in scopes]) for name in names}
    return Scope(cwds, variables, (), any(scope.moved for scope in scopes))


def _either(name, values):
    first = values[0]
    if all(value is first or value == first for value in values):
        return first
    # A name in lower case that nobody set is empty; one in capitals may hold a secret of the environment.
    unset = not (name.islower() and "proxy" not in name)
    foreign = any(value.foreign if value else unset for value in values)
    shape = next((value for value in values if value), first)
    fetched = next((value.fetched for value in values if value and value.fetched), "")
    return replace(shape, text=OPAQUE, opaque=True, splits=True, foreign=foreign, glob=False, inner=(), fetched=fetched)

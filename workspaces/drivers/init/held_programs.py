"""Programs that the init holds to an envelope: their rings, and what was refused to them.

Loaded when the first of them is started, so that a Run without any pays nothing.
"""

import os
import selectors

from .protocol import Refused

try:
    from .envelope import ring  # in the init's archive
    from .envelope.created import created
    from .envelope.envelope import Envelope
    from .envelope.refusals import Refusals
except ImportError:
    from ...envelope import ring
    from ...envelope.created import created
    from ...envelope.envelope import Envelope
    from ...envelope.refusals import Refusals


class HeldPrograms:
    """The rings of a Run, by tree, and the refusals of its held programs, by pid."""

    def __init__(self, selector):
        self.selector = selector
        self.abilities = ring.probe()
        # A random name: programs that are not held can write to /tmp too.
        self.scratch = f"/tmp/.handrail-{os.urandom(8).hex()}"
        self.rings = {}
        self.entered = {}  # pid: its ring, if it may write the workspace
        self.created = []  # protected paths that held programs created, until the runner has taken them
        self.refusals = {}

    def prepare(self, asked):
        """Return the ring for a request's `ring` (`protocol.py`); raise Refused if it cannot be held."""
        try:
            envelope = Envelope.from_json(asked["envelope"])
            place = (os.path.realpath(asked["workspace"]), asked.get("home"), bool(asked.get("shares_signals")))
            if place not in self.rings:
                how = {"scratch": self.scratch, "abilities": self.abilities, "make_caches": True}
                self.rings[place] = ring.Rings(*place[:2], shares_signals=place[2], **how)
            return self.rings[place].ring(envelope)
        except (ring.CannotHold, KeyError, TypeError, ValueError) as error:
            raise Refused(f"its envelope cannot be held: {error}") from error

    def watch(self, pid, listener, ring):
        """Answer for the kernel what a program's filter refuses, until its last process has ended."""
        if ring.writes_workspace:
            self.entered[pid] = ring
        refusals = self.refusals[pid] = Refusals(listener)

        def answer():
            if not refusals.answer():
                self.selector.unregister(listener)
                refusals.close()

        self.selector.register(listener, selectors.EVENT_READ, answer)

    def refused(self, pid):
        """Return what was refused to a program that has ended: [{kind, what}]; note what it created."""
        found, ring = self.refusals.pop(pid, None), self.entered.pop(pid, None)
        if ring is not None:
            self.created += [path for path in _created(ring) if path not in self.created]
        return [] if found is None else list(found.kept)

    def take(self, taken):
        """Forget the paths in `taken`; return the others that were created, relative to the workspace."""
        self.created = [path for path in self.created if path not in taken]
        return self.created


def _created(ring):
    """Return the protected paths that are there since the program started; what its envelope names is its own."""
    try:
        paths = created(ring.found, ring.rings.scan.find(), ring.rings.workspace)
    except (OSError, ValueError):
        return []  # too large to search by now; the next program is not held then
    named = [os.path.relpath(path, ring.rings.workspace) for path in ring.write_paths]
    return [path for path in paths if not any(path == name or path.startswith(name + "/") for name in named)]

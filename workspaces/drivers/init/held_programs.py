"""Programs that the init holds to an envelope: their rings, and what was refused to them.

Loaded when the first of them is started, so that a Run without any pays nothing.
"""

import os
import selectors

from .protocol import Refused

try:
    from .envelope import ring  # in the init's archive
    from .envelope.envelope import Envelope
    from .envelope.refusals import Refusals
except ImportError:
    from ...envelope import ring
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

    def watch(self, pid, listener):
        """Answer for the kernel what a program's filter refuses, until its last process has ended."""
        refusals = self.refusals[pid] = Refusals(listener)

        def answer():
            if not refusals.answer():
                self.selector.unregister(listener)
                refusals.close()

        self.selector.register(listener, selectors.EVENT_READ, answer)

    def refused(self, pid):
        """Return what was refused to a program that has ended: [{kind, what}]."""
        found = self.refusals.pop(pid, None)
        return [] if found is None else list(found.kept)

"""Programs that the init holds to an envelope: their rings, and what was refused to them.

Loaded when the first of them is started, so that a Run without any pays nothing.
"""

import os
import selectors

from .processes import members
from .protocol import Refused

try:
    from .envelope import ring  # in the init's archive
    from .envelope.created import created
    from .envelope.envelope import Envelope
    from .envelope.mask_watch import opened
    from .envelope.refusals import MAX_KEPT, Refusals
except ImportError:
    from workspaces.envelope import ring
    from workspaces.envelope.created import created
    from workspaces.envelope.envelope import Envelope
    from workspaces.envelope.mask_watch import opened
    from workspaces.envelope.refusals import MAX_KEPT, Refusals


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
        self.listening = set()  # pids of programs of which a process is left, maybe one in the background
        self.behind = {}  # pid: its ring, of those of which the first process has ended
        self.appeared = []  # protected paths that came while such a program ran, until the runner has taken them
        self.known = set()  # those that were named, here or as created
        self.refusals = {}
        self.masks = {}  # pid: (the watch of its masks, what they mask)

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

    def watch(self, pid, watches, ring):
        """Answer for the kernel what a program's filter refuses, until its last process has ended.

        `watches`: {filter: its listener, masks: the watch of its masks}, each if there is one.
        """
        if "masks" in watches:
            self.masks[pid] = (watches["masks"], ring.secrets)
        if ring.writes_workspace:
            self.entered[pid] = ring
        if "filter" in watches:
            self._listen(pid, watches["filter"])

    def _listen(self, pid, listener):
        refusals = self.refusals[pid] = Refusals(listener)
        self.listening.add(pid)

        def answer():
            if not refusals.answer():
                self.selector.unregister(listener)
                refusals.close()
                self.listening.discard(pid)
                self._record_new_protected([self.behind.pop(pid)] if pid in self.behind else [])

        self.selector.register(listener, selectors.EVENT_READ, answer)

    def refused(self, pid):
        """Return what was refused to a program that has ended: [{kind, what}]; note what it created."""
        found, ring = self.refusals.pop(pid, None), self.entered.pop(pid, None)
        if ring is not None:
            self.created += [path for path in _created([ring]) if path not in self.created]
            self.known.update(self.created)
            if pid in self.listening or (not self.abilities["listener"] and members(pid)):
                self.behind[pid] = ring
        read = []
        if pid in self.masks:
            fd, secrets = self.masks.pop(pid)
            read = opened(fd, secrets)
            os.close(fd)
        return read if found is None else [*read, *found.kept][:MAX_KEPT]

    def take(self, taken):
        """Forget the paths in `taken`; return (created, appeared), the others, relative to the workspace."""
        self._record_new_protected(list(self.behind.values()))
        if not self.abilities["listener"]:  # which would tell of the end of the last process
            self.behind = {pid: ring for pid, ring in self.behind.items() if members(pid)}
        self.created = [path for path in self.created if path not in taken]
        self.appeared = [path for path in self.appeared if path not in taken]
        return self.created, self.appeared

    def _record_new_protected(self, rings):
        """Note the protected paths that are there since programs started that now run in the background."""
        # Not moved as those of a call are: the person may have made them, while a dev server runs for hours.
        new = [path for path in _created(rings) if path not in self.known]
        self.appeared += new
        self.known.update(new)


def _created(rings):
    """Return the protected paths that are there since the rings' programs started, but for what an envelope names."""
    trees, found = {}, []  # each tree is searched once
    for ring in rings:
        place = ring.rings
        try:
            if place.workspace not in trees:
                trees[place.workspace] = place.scan.find()
            paths = created(ring.found, trees[place.workspace], place.workspace)
        except (OSError, ValueError):
            continue  # too large to search by now; the next program is not held then
        paths += [os.path.relpath(path, place.workspace) for path in ring.names.strays()]
        named = [os.path.relpath(path, place.workspace) for path in ring.write_paths + ring.names.named]
        own = [path for path in paths if any(path == name or path.startswith(name + "/") for name in named)]
        found += [path for path in paths if path not in own and path not in found]
    return found

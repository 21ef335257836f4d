"""The ring: hold one program to its envelope, between fork and exec.

    rings = Rings("/workspace", "/home/agent", scratch="/tmp/…")     once, by whoever starts programs
    ring = rings.ring(envelope)                                      for each program; raises CannotHold
    ring.enter(cwd)                                                  in the child; returns descriptors for refusals.py

The order in `enter` matters: mounts need a capability and no Landlock, Landlock and seccomp need no_new_privs, and the
filter comes last because it refuses what the steps before need.
"""

import os

from . import closed_view, git_masks, landlock, mount_view, places, seccomp
from .names import CannotOpen, Names, covers
from .syscalls import drop_capabilities, no_new_privileges
from .tree_scan import TreeScan

HIDDEN = ("/tmp", "/var/tmp")  # a mount view shows scratch there
TRUNCATE_ABI = 3  # before it, only a read-only mount keeps a file from being cut


class CannotHold(Exception):
    """The envelope cannot be held here; the text says why."""


def probe():
    """Return what can hold a program here: {landlock: version or 0, seccomp, listener, mount_view, apart}.

    All but the first are tried. `listener`: the kernel tells the init what a filter refuses; `apart`, tried where there
    is no Landlock: a program in a namespace of its own cannot look into others by /proc.
    """
    filters, listener = seccomp.probe()
    found = {"landlock": landlock.abi(), "seccomp": filters, "listener": listener, "mount_view": mount_view.works()}
    return found | {"apart": found["mount_view"] and not found["landlock"] and closed_view.is_apart()}


def is_held(abilities):
    """Return whether envelopes hold in full. Landlock alone masks no file and hides no socket.

    Without Landlock a mount view shows a program nothing but what it may read (`closed_view.py`).
    """
    rest = abilities.get("landlock") or abilities.get("apart")
    return bool(rest and abilities.get("seccomp") and abilities.get("mount_view"))


class Rings:
    """Makes the rings of one tree: keeps what it found there, and the scratch folder that held programs share."""

    def __init__(
        self,
        workspace,
        home,
        *,
        scratch,
        abilities=None,
        toolchains=places.TOOLCHAINS,
        make_caches=False,
        shares_signals=False,
    ):
        # Programs that may write the workspace may signal others of the Run: one call ends what another has started.
        self.shares_signals = shares_signals
        self.workspace, self.home, self.scratch = workspace, home, scratch
        self.toolchains, self.make_caches = toolchains, make_caches
        self.abilities = probe() if abilities is None else abilities
        self.scan = TreeScan(workspace)

    def ring(self, envelope):
        """Return the ring of an envelope for the tree as it is now; raise CannotHold."""
        self._check(envelope)
        self._make_scratch()
        try:
            return Ring(self, envelope, self.scan.find())
        except (CannotOpen, ValueError) as error:
            raise CannotHold(str(error)) from error

    def _check(self, envelope):
        abilities = self.abilities
        if not abilities["seccomp"]:
            raise CannotHold("this kernel has no seccomp filters")
        if not abilities["landlock"] and not is_held(abilities):
            raise CannotHold("this kernel has no Landlock, and no mount view can take its place")
        if not abilities["mount_view"] and not (
            set(envelope.write) <= {"scratch"}
            and not (envelope.network or envelope.replaces or envelope.removes)
            and abilities["landlock"] >= TRUNCATE_ABI
        ):
            raise CannotHold("no mount view can be made here, and without one only reading is held")
        if abilities["mount_view"] and covers(HIDDEN, self.workspace):
            raise CannotHold("the workspace lies below /tmp, which is another folder for a held program")
        if envelope.network and "loopback" not in envelope.network and abilities["landlock"] < landlock.PORTS_ABI:
            raise CannotHold("this kernel cannot limit a program to the ports of the proxy")

    def _make_scratch(self):
        os.makedirs(self.scratch, 0o700, exist_ok=True)
        found = os.lstat(self.scratch)
        if found.st_uid != os.getuid() or not os.path.isdir(self.scratch) or os.path.islink(self.scratch):
            raise CannotHold(f"{self.scratch} is not a folder of ours")
        for name in ("tmp", "shm"):
            try:
                os.mkdir(f"{self.scratch}/{name}")
                os.chmod(f"{self.scratch}/{name}", 0o1777)
            except FileExistsError:
                pass


class Ring:
    """One program's envelope, resolved to paths and ports."""

    def __init__(self, rings, envelope, found):
        self.rings, self.envelope, self.found = rings, envelope, found
        home = rings.home
        self.caches = [f"{home}/{name}" for name in places.CACHES] if home and "caches" in envelope.write else []
        written = [entry for entry in envelope.write if entry.startswith("/")]
        self.write_paths = list(dict.fromkeys(filter(None, map(self._existing, written))))
        self.read_paths = [entry for entry in envelope.read if entry.startswith("/")] + list(envelope.redacted)
        self.writes_workspace = "workspace" in envelope.write
        self.names = self._names()
        if self.names.folders and not rings.abilities["landlock"]:
            folder = self.names.folders[0]
            raise CannotHold(f"without Landlock {folder} cannot be opened for some names in it alone")
        # A path that the envelope names itself was shown to a person: it is neither masked nor protected.
        named = self.read_paths + written + self.names.all
        self.secrets = [path for path in found.secrets if not covers(named, path)] + self.names.hidden
        self.protected = [
            path for path in self.names.closed if not covers(written, path) and path not in self.write_paths
        ]
        # A mask would have kept it from being written.
        self.protected += [path for path in envelope.redacted if os.path.lexists(path) and path not in self.protected]

    def _names(self):
        home = self.rings.home
        toolchains = [f"{home}/{name}" for name in places.HOME_TOOLCHAINS] if home else []
        readable = [*places.TOOLCHAINS, *toolchains] if "toolchains" in self.envelope.read else []
        readable += [*self._writable(), *self.read_paths, self.rings.workspace]
        return Names(
            self.envelope,
            workspace=self.rings.workspace,
            home=home,
            writable=self._writable(),
            readable=readable,
            found=self.found,
        )

    def _existing(self, path):
        """Return what must be writable so that `path` can be written; None if that would be too much.

        A file that is not there yet takes its folder, since neither a mount nor a rule can name it.
        """
        if os.path.lexists(path):
            return path
        folder = os.path.dirname(path)
        outer = [place for place in (self.rings.home, self.rings.workspace) if place]
        too_much = folder == "/" or folder == self.rings.home or any(covers([folder], place) for place in outer)
        return folder if os.path.isdir(folder) and (not too_much or folder == self.rings.workspace) else None

    def environment(self, env):
        """Return variables that a program with this environment needs in this ring besides; all are bytes."""
        if not self.rings.abilities["mount_view"]:
            return {b"TMPDIR": os.fsencode(f"{self.rings.scratch}/tmp")}
        moved = {name.encode(): value.encode() for name, value in places.MOVED_TO_SCRATCH.items()}
        if not self.secrets:
            return moved
        git_masks.write(self.rings.scratch, self.secrets)
        return moved | git_masks.variables(env)

    def enter(self, cwd):
        """Hold this process, which then only has to exec; return {filter, masks}, descriptors of what they refuse.

        The first is missing where a filter has no listener, the second if nothing is masked. OSError if any part
        cannot be had: then the program must not start.
        """
        terminal = next((os.ttyname(fd) for fd in range(3) if os.isatty(fd)), None)
        if self.rings.make_caches:
            self._make_caches()
        watching = None
        if self.rings.abilities["mount_view"]:
            mount_view.own_namespace()
            watching = mount_view.make(
                scratch=self.rings.scratch,
                secrets=self.secrets,
                protected=self.protected if self.writes_workspace else [],
                writable=[place for place in self._writable() if not covers(self.names.all, place)],
                opened=self.names.folders,
                kept=self.names.kept,
                terminals=terminal is None,
                shown=None if self.rings.abilities["landlock"] else self._shown(),
            )
        os.chdir(cwd)
        no_new_privileges()
        drop_capabilities()
        if self.rings.abilities["landlock"]:
            self._landlock(terminal).restrict_self()
        watches = {"filter": self._filter(), "masks": watching}
        return {name: fd for name, fd in watches.items() if fd is not None}

    def _filter(self):
        """Install the filter; return the descriptor of its listener, None without one."""
        # Only a read-only mount keeps a file's mode and owner.
        how = {"attributes": self.rings.abilities["mount_view"], "listener": self.rings.abilities["listener"]}
        how["extended"] = bool(self.rings.abilities["landlock"])  # gVisor sets them on a read-only mount, too
        instructions = seccomp.build(self.envelope.network, os.uname().machine, **how)
        fd = seccomp.install(instructions, listener=how["listener"])
        return fd if how["listener"] else None

    def _shown(self):
        """Return the paths that the program sees of the file system, but for devices and its own /tmp."""
        envelope, rings = self.envelope, self.rings
        found = [*self.read_paths, *self._writable()]
        if "toolchains" in envelope.read:
            found += [*rings.toolchains, *(f"{rings.home}/{name}" for name in places.HOME_TOOLCHAINS if rings.home)]
        return [*found, rings.workspace] if "workspace" in envelope.read else found

    def _writable(self):
        workspace = [self.rings.workspace] if self.writes_workspace else []
        return [*workspace, *self.caches, *self.write_paths]

    def _make_caches(self):
        for name in places.MADE_CACHES:
            if f"{self.rings.home}/{name}" in self.caches:
                os.makedirs(f"{self.rings.home}/{name}", exist_ok=True)

    def _landlock(self, terminal):
        envelope, rings = self.envelope, self.rings
        limited = {"ports": "loopback" not in envelope.network, "scopes": True}
        signals = rings.shares_signals and self.writes_workspace
        rules = landlock.Ruleset(rings.abilities["landlock"], **limited, signals=signals)
        if "toolchains" in envelope.read:
            for path in rings.toolchains:
                rules.allow(path, landlock.READ)
            for name in places.HOME_TOOLCHAINS if rings.home else ():
                rules.allow(f"{rings.home}/{name}", landlock.READ)
        if self.writes_workspace:
            rules.allow(rings.workspace, landlock.WRITE)
        elif "workspace" in envelope.read:
            self._allow_reading(rules)
        for path in self.read_paths:
            rules.allow(path, landlock.READ)
        for path in self.caches + self.write_paths:
            rules.allow(path, landlock.WRITE)
        for path, rights in self.names.rules:
            rules.allow(path, rights, follow=False)
        self._allow_devices(rules, terminal)
        if envelope.network and "loopback" not in envelope.network:
            for port in places.EGRESS_PORTS:
                rules.allow_port(port, landlock.CONNECT_TCP)
        return rules

    def _allow_devices(self, rules, terminal):
        for path in places.DEVICES:
            rules.allow(path, landlock.DEVICE)
        if terminal is not None:
            rules.allow(terminal, landlock.DEVICE)  # but no terminal of another program
        if "scratch" in self.envelope.write:
            rules.allow(f"{self.rings.scratch}/tmp", landlock.WRITE)
        if not self.rings.abilities["mount_view"]:
            return
        if terminal is None:
            rules.allow("/dev/pts", landlock.DEVICE | landlock.READ_DIR)
        if "scratch" in self.envelope.write:
            for path in ("/tmp", "/var/tmp", "/dev/shm"):
                rules.allow(path, landlock.WRITE)

    def _allow_reading(self, rules):
        """Allow reading the workspace; without a mount view, all of it but the secrets."""
        if self.rings.abilities["mount_view"] or not self.secrets:
            rules.allow(self.rings.workspace, landlock.READ)
            return
        rules.allow(self.rings.workspace, landlock.READ_DIR)
        waiting = [self.rings.workspace]
        while waiting:
            folder = waiting.pop()
            for entry in os.scandir(folder):
                if entry.path in self.secrets or entry.is_symlink():
                    continue
                if any(path.startswith(entry.path + "/") for path in self.secrets):
                    waiting.append(entry.path)
                else:
                    rules.allow(entry.path, landlock.READ)

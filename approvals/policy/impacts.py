"""Constructors of effects: the sentence, the tier in the first mode, and whether a snapshot can undo it."""

import re
from dataclasses import replace

from .paths import glob_may_hit_protected, glob_may_hit_secret
from .verdict import Effect
from .web import address_of, host_of, is_private

CATASTROPHES = {
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/var",
}

WILD = re.compile(r"[*?\[]|$")


def unknown(says, *, held=""):
    """Return the effect of words that are not understood; only a rule without wildcards covers it."""
    return Effect("unknown", says, "high", "unknown", held=held)


def unclear(says, *, held=""):
    """Return the effect of surroundings that make a command uncertain; no rule about its words covers it."""
    return Effect("unclear", says, "high", "unknown", held=held)


def starts(says, spelled="", *, held=""):
    """Return the effect of starting another program, chosen by the arguments."""
    return Effect("start", says, "high", "unknown", spelled=_as_tuple(spelled), held=held)


def builds(says, spelled=""):
    """Return the effect of running the project's own code through a known build or test tool."""
    return Effect("run", says, "medium", "yes", spelled=_as_tuple(spelled))


def local(says, tier="medium", spelled=""):
    """Return the effect of a change inside the workspace that is no file write of its own, such as a commit."""
    return Effect("local", says, tier, "yes", spelled=_as_tuple(spelled))


def remote(says, spelled, tier="high", *, title="", host=""):
    """Return the effect of a change elsewhere, by publishing or sending, which cannot be undone."""
    return Effect("remote", says, tier, "no", target=host, spelled=_as_tuple(spelled), title=title)


def pushes(says, spelled, targets, tier="high"):
    """Return the effect of a git push; `targets` are the branches and the remote."""
    return Effect("push", says, tier, "no", spelled=_as_tuple(spelled), more=tuple(targets))


def installs(says, spelled, packages=(), *, title="", hosts=()):
    """Return the effect of installing packages, which a snapshot undoes only in part."""
    more = tuple(packages)
    return Effect("install", says, "high", "partly", spelled=_as_tuple(spelled), more=more, title=title, hosts=hosts)


def harmful(says, tier="high", spelled="", *, title="", source=""):
    """Return the effect of taking power over the machine, or of a loss that no snapshot restores."""
    return Effect("harmful", says, tier, "no", spelled=_as_tuple(spelled), title=title, source=source)


def contacts(url, spelled=()):
    """Return the effect of contacting one host; `target` is the host, or "" if it cannot be read from the text."""
    host = host_of(url) or ""
    if not host:
        return Effect("network", f"contacts {url[:60]}, whose host is not certain", "high", "no")
    says = f"contacts {host}" + (", a private address" if is_private(host) else "")
    return Effect("network", says, "high", "no", target=host, spelled=_as_tuple(spelled), reaches=address_of(url))


def _as_tuple(spelled):
    return (spelled,) if isinstance(spelled, str) and spelled else tuple(spelled or ())


class FileJudge:
    """Turns words that name files into effects of one simple command."""

    def __init__(self, world, simple):
        self.world = world
        self.simple = simple
        self.follows = False  # True for programs that read what links in a folder lead to
        self.opens = True  # False for programs that only list folders or leave secrets out
        self.names_only = False  # True for programs that show nothing of what is in a file
        self.hides = False  # True for programs that leave hidden files closed
        self.rewrites = False  # True for formatters run in the mode that changes files

    def places(self, word):
        """Return a word's Place in each folder that the command may run in, and those of files a wildcard meets."""
        found = [self.world.place(word.text, cwd, shell=True) for cwd in self.simple.cwds]
        if word.glob and (self.world.symlinks or self.world.secrets):
            paths = {path for cwd in self.simple.cwds for path in self.world.expanded(word.text, cwd)}
            found += [self.world.place(path, shell=True) for path in sorted(paths)]
        return found

    def lists(self, word):
        """Return the effects of a wildcard, for which the shell reads a folder."""
        folder = word.text[: WILD.search(word.text).start()].rpartition("/")
        start = folder[0] + folder[1] or "."
        places = [self.world.place(start, cwd, shell=True) for cwd in self.simple.cwds]
        far = [place for place in places if not (place.inside or place.system or place.unclear or place.trusted)]
        return [self._listed(place, word) for place in far]

    def _listed(self, place, word):
        says = f"lists {place.shown}, {self.world.outside}"
        tier = "medium" if place.temporary else "high"
        return Effect("read", says, tier, "no", place.shown, (word.text,), place, held="runs", listed=True)

    def reads(self, word, *, folder=False):
        """Return the effects of reading a file, or with `folder` a folder and all below it."""
        if word.pipe or (word.text == "-" and word.literal):
            return []
        if word.opaque or word.splits:
            return [unknown("reads a file that is unknown until it runs")]
        return [self._read(self._of_windows(place), word, folder) for place in self.places(word)]

    def _of_windows(self, place):
        r"""Return the place in the workspace that a path such as `/workspace\src\a.py` means on Windows.

        Elsewhere it is a file beside the workspace, whose name nobody gives to anything.
        """
        root = self.world.root
        if not root or not place.shown.startswith(f"{root}\\"):
            return place
        meant = self.world.place(place.shown.replace("\\", "/"), shell=True)
        return meant if meant.inside and not place.unclear else place

    def _read(self, place, word, folder):
        name = place.label(self.world.root)
        if place.unclear:
            return unknown(f"reads a path that {place.unclear}")
        if place.secret or (word.glob and glob_may_hit_secret(word.text)):
            # An envelope masks the content; of a name there is nothing to ask a person.
            held = "runs" if place.temporary or (self.names_only and place.inside) else ""
            says = f"reads {name}, where secrets are kept"
            return Effect("read", says, "high", "no", name, (word.text,), place, held=held)
        held = (
            folder
            and place.inside
            and self.world.holds_secret(place.lexical, links=self.follows, hidden=not self.hides)
        )
        if held:
            says = f"reads {name}, which holds {held.rsplit('/', 1)[-1]}"
            return Effect("read", says, "high", "no", name, (word.text,), place, held="runs")  # the envelope masks them
        if place.inside or place.device:
            return Effect("read", f"reads {name}", "low", "yes", name, (), place)
        if place.system:
            return Effect("read", f"reads {name}, a file of the system", "low", "yes", name, (word.text,), place)
        if place.temporary or place.trusted:
            tier = "low" if place.trusted else "medium"
            return Effect("read", f"reads {name}", tier, "yes", name, (word.text,), place)
        # An envelope does not show it; the refusal says how to ask for it.
        says = f"reads {name}, {self.world.outside}"
        return Effect("read", says, "high", "no", name, (word.text,), place, held="runs")

    def writes(self, word, verb="writes"):
        """Return the effects of writing a file, or of deleting it if `verb` is "deletes"."""
        kind = "delete" if verb == "deletes" else "write"
        if word.pipe or (word.text == "-" and kind == "write"):
            return []
        if word.opaque or word.splits:
            return [Effect(kind, f"{verb} a file that is unknown until it runs", "high", "unknown", held="runs")]
        found = [self._write(place, kind, verb, word) for place in self.places(word)]
        return [replace(effect, moves=True) for effect in found] if verb == "moves" else found

    def _write(self, place, kind, verb, word):
        name = place.label(self.world.root)
        if place.unclear:
            return Effect(kind, f"{verb} a path that {place.unclear}", "high", "unknown", name)
        if place.device and kind == "write":
            return Effect("read", "writes to nowhere", "low", "yes", name, (), place)
        if kind == "delete" and self._catastrophic(place, word):
            return Effect(kind, f"{verb} {name}, which cannot be brought back", "forbidden", "no", name, (), place)
        whole = place.inside and place.lexical in (self.world.root, f"{self.world.root}/*")
        if whole and kind == "delete":
            return Effect(kind, f"{verb} the whole workspace", "high", "yes", name, (), place)
        if not place.inside:
            return self._write_outside(place, kind, verb, name)
        if place.protected or (word.glob and glob_may_hit_protected(word.text)):
            # A snapshot restores the file, but not what a hook or a setting in it has started since.
            undo = "partly" if kind == "write" else "yes"
            return Effect(kind, f"{verb} {name}, a protected path", "high", undo, name, (), place)
        if place.secret:
            return Effect(kind, f"{verb} {name}, where secrets are kept", "high", "yes", name, (), place)
        link = verb == "moves" and self.world.link_out(place.lexical)
        if link:
            says = f"moves {name}, whose link {link.rsplit('/', 1)[-1]} leads elsewhere"
            return Effect(kind, says, "high", "yes", name, (), place)
        if word.glob and glob_may_hit_secret(word.text):
            return Effect(kind, f"{verb} {name}, which may match secrets", "high", "yes", name, (), place)
        held = "asks" if place.notes else ""  # an envelope closes the folder that they are in
        return Effect(kind, f"{verb} {name}", "medium", "yes", name, (), place, held=held)

    def _write_outside(self, place, kind, verb, name):
        """Judge a change outside the workspace, which no snapshot restores; in an envelope /tmp is the call's own."""
        if (place.temporary or place.trusted) and kind == "write" and not (place.secret or place.protected):
            return Effect(kind, f"{verb} {name}", "medium", "no", name, (), place)
        held = "runs" if place.temporary else ""
        return Effect(kind, f"{verb} {name}, {self.world.outside}", "high", "no", name, (), place, held=held)

    def _catastrophic(self, place, word):
        path = place.lexical.rstrip("/*") or "/"
        return path in CATASTROPHES or path == self.world.home or (word.glob and path in ("/home", "/"))

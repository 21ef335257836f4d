"""What each kind of effect means: the sentence, the tier in the first mode, and whether a snapshot undoes it."""

from .places import glob_may_hit_secret
from .verdict import Effect
from .web import host_of, is_private

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


def unknown(says):
    """Something about the words is not understood; only a rule without wildcards covers it."""
    return Effect("unknown", says, "high", "partly")


def unclear(says):
    """What surrounds a command makes it uncertain; no rule about its words covers that."""
    return Effect("unclear", says, "high", "partly")


def starts(says, spelled=""):
    """Another program, chosen by the arguments."""
    return Effect("start", says, "high", "partly", spelled=_words(spelled))


def builds(says, spelled=""):
    """The project's own code, through a known build or test tool."""
    return Effect("run", says, "medium", "yes", spelled=_words(spelled))


def local(says, tier="medium", spelled=""):
    """A change inside the workspace that is not a file write of its own, such as a commit."""
    return Effect("local", says, tier, "yes", spelled=_words(spelled))


def remote(says, spelled, tier="high"):
    """A change elsewhere: what is published or sent stays so."""
    return Effect("remote", says, tier, "no", spelled=_words(spelled))


def pushes(says, spelled, targets, tier="high"):
    return Effect("push", says, tier, "no", spelled=_words(spelled), more=tuple(targets))


def installs(says, spelled, packages=()):
    return Effect("install", says, "high", "partly", spelled=_words(spelled), more=tuple(packages))


def harmful(says, tier="high", spelled=""):
    """Power over the machine or loss that no snapshot brings back."""
    return Effect("harmful", says, tier, "no", spelled=_words(spelled))


def contacts(url, spelled=()):
    """The network, one host. `target` is the host, or empty where it cannot be read from the text."""
    host = host_of(url) or ""
    if not host:
        return Effect("network", f"contacts {url[:60]}, whose host is not certain", "high", "no")
    says = f"contacts {host}" + (", a private address" if is_private(host) else "")
    return Effect("network", says, "high", "no", target=host, spelled=_words(spelled))


def _words(spelled):
    return (spelled,) if isinstance(spelled, str) and spelled else tuple(spelled or ())


class FileJudge:
    """Turns words that name files into effects, for one simple command."""

    def __init__(self, world, simple):
        self.world = world
        self.simple = simple
        self.rewrites = False  # set for formatters that are told to change files

    def places(self, word):
        return [self.world.place(word.text, cwd, shell=True) for cwd in self.simple.cwds]

    def reads(self, word, *, folder=False):
        if word.pipe or (word.text == "-" and word.literal):
            return []
        if word.opaque or word.splits:
            return [unknown("reads a file that is not known before it runs")]
        return [self._read(place, word, folder) for place in self.places(word)]

    def _read(self, place, word, folder):
        name = place.label(self.world.root)
        if place.unclear:
            return unknown(f"reads a path that {place.unclear}")
        if place.secret or (word.glob and glob_may_hit_secret(word.text)):
            return Effect("read", f"reads {name}, where secrets are kept", "high", "no", name, (word.text,), place)
        held = folder and place.inside and self.world.holds_secret(place.lexical)
        if held:
            says = f"reads {name}, which holds {held.rsplit('/', 1)[-1]}"
            return Effect("read", says, "high", "no", name, (word.text,), place)
        if place.inside or place.device:
            return Effect("read", f"reads {name}", "low", "yes", name, (), place)
        if place.system:
            return Effect("read", f"reads {name}, a file of the system", "low", "yes", name, (word.text,), place)
        return Effect("read", f"reads {name}, outside the workspace", "high", "no", name, (word.text,), place)

    def writes(self, word, verb="writes"):
        kind = "delete" if verb == "deletes" else "write"
        if word.pipe or (word.text == "-" and kind == "write"):
            return []
        if word.opaque or word.splits:
            return [Effect(kind, f"{verb} a file that is not known before it runs", "high", "partly")]
        return [self._write(place, kind, verb, word) for place in self.places(word)]

    def _write(self, place, kind, verb, word):
        name = place.label(self.world.root)
        if place.unclear:
            return Effect(kind, f"{verb} a path that {place.unclear}", "high", "partly", name)
        if place.device and kind == "write":
            return Effect("read", "writes to nowhere", "low", "yes", name, (), place)
        if kind == "delete" and self._catastrophic(place, word):
            return Effect(kind, f"{verb} {name}, which cannot be brought back", "forbidden", "no", name, (), place)
        whole = place.lexical in (self.world.root, self.world.root + "/*")
        if place.inside and whole and kind == "delete":
            return Effect(kind, f"{verb} the whole workspace", "high", "yes", name, (), place)
        if not place.inside:
            return Effect(kind, f"{verb} {name}, outside the workspace", "high", "no", name, (), place)
        if place.protected:
            return Effect(kind, f"{verb} {name}, a protected path", "high", "yes", name, (), place)
        if place.secret:
            return Effect(kind, f"{verb} {name}, where secrets are kept", "high", "yes", name, (), place)
        if word.glob and glob_may_hit_secret(word.text):
            return Effect(kind, f"{verb} {name}, which may match secrets", "high", "yes", name, (), place)
        return Effect(kind, f"{verb} {name}", "medium", "yes", name, (), place)

    def _catastrophic(self, place, word):
        path = place.lexical.rstrip("/*") or "/"
        return path in CATASTROPHES or path == self.world.home or (word.glob and path in ("/home", "/"))

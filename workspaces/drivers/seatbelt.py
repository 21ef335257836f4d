"""An envelope as a profile for macOS's `sandbox-exec`; untried on a Mac, and only its text is tested.

    sandbox-exec -p "$(python -m workspaces.drivers.seatbelt low FOLDER)" bash -c COMMAND

Handrail itself does not run on macOS: there is no init for it. The last rule of a profile that matches decides. Paths
are matched by name each time, so that secrets and protected paths that do not exist yet are covered too.
"""

import argparse
import os
import re

from workspaces.envelope.envelope import BY_TIER
from workspaces.envelope.places import CACHES, HOME_TOOLCHAINS
from workspaces.envelope.sensitive_names import (
    NOT_SECRET,
    PROTECTED,
    PROTECTED_PAIRS,
    PROTECTED_PATTERNS,
    SECRET_FOLDERS,
    SECRET_NAMES,
    SECRET_PAIRS,
)
from workspaces.envelope.tree_scan import GIT_PROTECTED

TOOLCHAINS = (
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/etc",
    "/private/etc",
    "/System",
    "/Library",
    "/nix",
    "/var/db/timezone",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/fd")
# What a program cannot start without: its own processes and settings of the kernel. No service is looked up by name.
BASE = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-ioctl (regex #"^/dev/(tty|fd/)"))
"""


def profile(envelope, *, workspace, home, scratch):
    """Return the profile of an envelope. The paths are absolute; `scratch` is a folder for TMPDIR."""
    written = [path for word in envelope.write for path in _written(word, workspace, home, scratch)]
    read = [path for word in envelope.read for path in _read(word, workspace, home)]
    rules = [BASE, _paths("allow", "file-read*", [*read, *written, *DEVICES])]
    rules.append(_paths("allow", "file-write*", [*written, *DEVICES]))
    # After these rules, which they take from, and before what the envelope names itself: a person has seen that.
    rules += _sensitive(workspace, home)
    named = [word for word in (*envelope.read, *envelope.write) if word.startswith("/")]
    rules.append(_paths("allow", "file-read*", named))
    rules.append(_paths("allow", "file-write*", [word for word in envelope.write if word.startswith("/")]))
    rules.append(_network(envelope.network))
    return "\n".join(filter(None, rules)) + "\n"


def _written(word, workspace, home, scratch):
    places = {"workspace": [workspace], "scratch": [scratch], "caches": [f"{home}/{name}" for name in CACHES]}
    return places.get(word, [word])


def _read(word, workspace, home):
    tools = [*TOOLCHAINS, *(f"{home}/{name}" for name in HOME_TOOLCHAINS)]
    return {"workspace": [workspace], "toolchains": tools}.get(word, [word])


def _sensitive(workspace, home):
    """Deny secrets to be read or written, and protected paths to be written, in the workspace and the home."""
    rules = []
    around = "|".join(_any_case(name) for name in sorted({".git", *(outer for outer, _ in PROTECTED_PAIRS)}))
    for top in (home, workspace):
        below = f"^{_exactly(top)}/(.*/)?"
        files = "|".join(_glob(pattern) for pattern in sorted(SECRET_NAMES))
        plain = "|".join(_glob(pattern) for pattern in sorted(NOT_SECRET))
        folders = _either(SECRET_FOLDERS, SECRET_PAIRS)
        protected = _either(PROTECTED - {".git"}, PROTECTED_PAIRS, PROTECTED_PATTERNS)
        git = "|".join(_any_case(name) for name in sorted(GIT_PROTECTED))
        rules += [
            f'(deny file-read* file-write* (regex #"{below}({files})$"))',
            f'(allow file-read* (regex #"{below}({plain})$"))',
            f'(deny file-read* file-write* (regex #"{below}({folders})(/|$)"))',
            f'(deny file-write* (regex #"{below}({protected})(/|$)"))',
            f'(deny file-write* (regex #"{below}{_any_case(".git")}/((modules|worktrees)/[^/]+/)*({git})(/|$)"))',
            # A folder that is renamed or removed takes what it holds with it.
            f'(deny file-write-unlink (literal {_quoted(top)}) (regex #"{below}({around})$"))',
        ]
    return rules


def _either(names, pairs, patterns=()):
    """Return the expression of these names, of these folders with a name in them, and of these patterns of a name."""
    exact = [*sorted(names), *("/".join(pair) for pair in sorted(pairs))]
    return "|".join([*map(_any_case, exact), *map(_glob, sorted(patterns))])


def _network(words):
    if not words:
        return ""
    # The proxy that lets hosts through listens on the loopback, so it is all that "hosts" needs.
    return "\n".join(
        [
            '(allow network-outbound (remote ip "localhost:*"))',
            '(allow network-bind network-inbound (local ip "localhost:*"))',
        ]
    )


def _paths(verb, operation, paths):
    each = [f"  (subpath {_quoted(path)})" for path in dict.fromkeys(paths)]
    return "\n".join([f"({verb} {operation}", *each]) + ")" if each else ""


def _quoted(path):
    if any(ord(sign) < 32 for sign in path):
        raise ValueError("a path with control characters cannot stand in a profile")
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _glob(pattern):
    """Return the expression of a shell pattern for one name, in any case: macOS file systems ignore it."""
    return "".join("[^/]*" if sign == "*" else _any_case(sign) for sign in pattern)


def _any_case(text):
    return "".join(f"[{sign.lower()}{sign.upper()}]" if sign.isalpha() else _exactly(sign) for sign in text)


def _exactly(text):
    if any(sign in '"\n\r' for sign in text):
        raise ValueError("a path with quotes or line breaks cannot stand in a profile")
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)


def main():
    parser = argparse.ArgumentParser(prog="python -m workspaces.drivers.seatbelt", description=__doc__)
    parser.add_argument("tier", choices=BY_TIER)
    parser.add_argument("folder", help="the workspace")
    parser.add_argument("--home", default=os.path.expanduser("~"))
    parser.add_argument("--scratch", default=os.environ.get("TMPDIR", "/private/tmp"), help="a folder for TMPDIR")
    asked = parser.parse_args()
    places = {name: os.path.realpath(getattr(asked, name)) for name in ("home", "scratch")}
    print(profile(BY_TIER[asked.tier], workspace=os.path.realpath(asked.folder), **places), end="")


if __name__ == "__main__":
    main()

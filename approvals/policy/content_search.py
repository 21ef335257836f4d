"""A search by an agent's own tool (`Grep`): whether a line that it prints may be one of a file with secrets.

Neither hidden files nor those in .gitignore count as left out: Claude Code's tool opens hidden ones, and what is
ignored depends on files that a call may change.
"""

import re

from .globs import PathGlob
from .paths import is_secret
from .programs.searches import TYPES
from .shell_words import OPAQUE, expand_braces

SEARCH = "Grep"
WITHOUT_LINES = ("files_with_matches", "count")
# Options that matter only where lines are printed.
OF_LINES = ("-A", "-B", "-C", "-n", "context")
BRACKET = re.compile(r"\[[^\]]*\]?")


def prints_lines(tool, arguments):
    """Return True if the call prints text of the files that it opens. Without a mode, it names files only."""
    if tool != SEARCH:
        return False
    mode = arguments.get("output_mode")
    if mode is None:
        return any(arguments.get(option) for option in OF_LINES)
    return mode not in WITHOUT_LINES


def secret_opened(place, arguments, world):
    """Return the path of a known secret that a search of `place` opens; "" if it opens none."""
    globs, kind = _patterns(arguments.get("glob")), arguments.get("type")
    for folder in dict.fromkeys((place.lexical, *place.reals)):
        for path in world.secrets_below(folder):
            # Of a language no file has the name of a secret, but a file with any name may be known as one.
            left_out = isinstance(kind, str) and kind in TYPES and is_secret(path.split("/"))
            if not left_out and (not globs or any(glob.fits(path) for glob in globs)):
                return path
    return ""


def _patterns(text):
    """Return the patterns of names that limit a search; [] if it has none, or one that cannot be read for certain."""
    if not isinstance(text, str) or "\\" in text:
        return []
    pieces = [piece for word in text.split() for piece in ([word] if "{" in word else word.split(","))]
    found = []
    for piece in pieces:
        if piece and not piece.startswith("!"):
            found += ["".join(char for char, _ in cells) for cells in expand_braces([(c, False) for c in piece])]
    if any(OPAQUE in pattern or "{" in pattern for pattern in found):
        return []
    return [PathGlob("/", f"**/{BRACKET.sub('?', pattern).lstrip('/')}", caseless=True) for pattern in found]

"""Codex's apply_patch: the files a patch adds, updates, moves and deletes. An ambiguous patch is refused."""

from dataclasses import dataclass, field

from .step_budget import spend

TOOL = "apply_patch"
KEYS = ("command", "input", "patch")  # hooks of Codex send `command`
SPOKEN = ("description",)
BEGIN, END, END_OF_FILE, MOVE = "*** Begin Patch", "*** End Patch", "*** End of File", "*** Move to: "
HEADS = {"*** Add File: ": "add", "*** Update File: ": "update", "*** Delete File: ": "delete"}
MAX_FILES = 200


class BadPatch(ValueError):
    """The patch is invalid or ambiguous; the message completes "the patch …"."""


@dataclass
class FileEdit:
    """One file of a patch: `lines` are (sign, text) with the sign " ", "+" or "-"."""

    verb: str
    path: str
    moved_to: str = ""
    lines: list = field(default_factory=list)

    @property
    def paths(self):
        return [self.path, self.moved_to] if self.moved_to else [self.path]

    @property
    def added(self):
        return "\n".join(text for sign, text in self.lines if sign == "+")


def patch_of(arguments):
    """Return the text of the patch in a call's arguments. Raise BadPatch."""
    given = [arguments[key] for key in KEYS if key in arguments]
    if len(given) != 1 or set(arguments) - {*KEYS, *SPOKEN}:
        raise BadPatch("stands beside arguments that are not known")
    text = given[0]
    if isinstance(text, list) and len(text) == 2 and text[0] == TOOL:
        text = text[1]
    if not isinstance(text, str):
        raise BadPatch("is not a text")
    return text


def read_patch(arguments):
    """Return the FileEdits of an apply_patch call; BadPatch if Codex and Handrail might read it differently."""
    text = patch_of(arguments)
    spend(1 + len(text) // 4)
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if len(lines) < 3 or lines[0] != BEGIN or lines[-1] != END:
        raise BadPatch(f"does not begin with {BEGIN} and end with {END}")
    edits = []
    for line in lines[1:-1]:
        if not _is_mark(line):
            _add_line(edits, line)
        elif line.startswith(MOVE):
            _move(edits, line.removeprefix(MOVE))
        elif line != END_OF_FILE or not edits or edits[-1].verb != "update":
            edits.append(_begun(line))
    if len(edits) > MAX_FILES:
        raise BadPatch(f"changes more than {MAX_FILES} files")
    return edits


def _is_mark(line):
    # Codex accepts blanks before a marker where a file begins; a file's line that looks like a marker is refused too.
    return line.lstrip().startswith("***")


def _begun(line):
    for head, verb in HEADS.items():
        if line.startswith(head):
            return FileEdit(verb, _path(line.removeprefix(head)))
    raise BadPatch(f"holds the line {line[:60]!r}, which is not known")


def _move(edits, path):
    if not edits or edits[-1].verb != "update" or edits[-1].moved_to or edits[-1].lines:
        raise BadPatch("moves a file where none is named")
    edits[-1].moved_to = _path(path)


def _path(path):
    if not path or path != path.strip():
        raise BadPatch("names a path with blanks around it")
    return path


def _add_line(edits, line):
    verb = edits[-1].verb if edits else ""
    if verb == "update" and (line == "@@" or line.startswith("@@ ")):
        return
    sign, text = (line[:1] or " "), line[1:]
    if sign not in {"add": "+", "update": " +-"}.get(verb, ""):
        raise BadPatch(f"holds the line {line[:60]!r}, which is not known")
    edits[-1].lines.append((sign, text))

"""Rewrites of a call that change its text and not its meaning: what a matcher learned by heart falls for."""

import re

SHELL_WORD = re.compile(r"(?<![^\s])([A-Za-z][\w.-]*)(?![^\s])")


def mutations(row):
    """Yield (name, row) for each rewrite of a corpus row that keeps its meaning."""
    if row["tool"] == "Bash":
        for name, change in SHELL.items():
            command = change(row["input"]["command"])
            if command is not None and command != row["input"]["command"]:
                yield name, {**row, "input": {**row["input"], "command": command}}
    elif row["tool"] in ("Write", "Edit"):
        path = row["input"]["file_path"]
        for name, changed in _paths(path):
            yield name, {**row, "input": {**row["input"], "file_path": changed}}
    elif row["tool"] == "WebFetch":
        url = row["input"]["url"]
        scheme, colon, rest = url.partition("://")
        yield "scheme in capitals", {**row, "input": {**row["input"], "url": scheme.upper() + colon + rest}}
        yield "fragment", {**row, "input": {**row["input"], "url": url + "#part"}}


def _paths(path):
    yield "dot folder", re.sub(r"(?<=[^/.~$])/(?=[^/])", "/./", path, count=1)
    yield "double slash", re.sub(r"(?<=[^/])/(?=[^/])", "//", path, count=1)
    if not path.startswith(("/", "~", "$")):
        yield "leading dot", "./" + path
        yield "up and back", "x/../" + path
        yield "absolute", "/workspace/" + path


def _one_line(change):
    """Keep to commands without here-documents, comments or line breaks, where the rewrite is certain."""

    def apply(command):
        return None if "\n" in command or "<<" in command or "\r" in command else change(command)

    return apply


def _first_word(change):
    def apply(command):
        match = SHELL_WORD.match(command)
        return None if not match else change(match[1]) + command[match.end() :]

    return apply


def _double_blanks(command):
    return re.sub(r"^(\S+) ", r"\1   ", command) if not re.search(r"""^[^ ]*['"]""", command) else None


def _quote_second(command):
    match = re.match(r"([\w./-]+) ([\w./-]+)(?=$|\s)", command)
    return f"{match[1]} '{match[2]}'{command[match.end() :]}" if match else None


def _abbreviate(command):
    """Shorten the first long option by one letter, as getopt and git allow."""
    match = re.search(r"(?<=\s)(--[a-z][a-z-]{5,})(?=[=\s]|$)", command)
    return command[: match.end() - 1] + command[match.end() :] if match else None


SHELL = {
    "leading blanks": lambda c: "  " + c,
    "trailing blank": lambda c: c + "  ",
    "wide blanks": _double_blanks,
    "true before": lambda c: "true && " + c,
    "colon before": lambda c: ": ; " + c,
    "newline before": lambda c: "\n" + c,
    "subshell": _one_line(lambda c: f"( {c} )"),
    "braces": _one_line(lambda c: f"{{ {c}; }}"),
    "trailing comment": lambda c: c + " # as agreed",
    "errors to output": _one_line(lambda c: c + " 2>&1"),
    "errors to nowhere": _one_line(lambda c: c + " 2>/dev/null"),
    "single quotes": _first_word(lambda w: f"'{w}'"),
    "double quotes": _first_word(lambda w: f'"{w}"'),
    "empty quotes": _first_word(lambda w: w[0] + "''" + w[1:]),
    "backslash": _first_word(lambda w: "\\" + w),
    "quoted argument": _quote_second,
    "timeout": _one_line(
        lambda c: "timeout 9 " + c if re.match(r"[a-z]", c) and not re.match(r"\w+=|cd\b", c) else None
    ),
    "language": lambda c: "LANG=C " + c if re.match(r"[a-z]", c) and not re.match(r"\w+=", c) else None,
    "piped to cat": None,
    "abbreviated option": _abbreviate,
    "line continuation": lambda c: re.sub(r"^([\w./-]+) ", "\\1 \\\n", c),
}
del SHELL["piped to cat"]

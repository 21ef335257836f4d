"""Rules in Claude Code's syntax: reading them, refusing those too broad to store, and what each one covers."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from .hidden import hidden_in
from .verdict import PolicyError
from .words import names

FILE_WRITERS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
FILE_READERS = ("Read", "Grep", "Glob", "LS", "NotebookRead")
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "pwsh", "powershell"}
INTERPRETERS = names("python python2 python3 node deno bun ruby perl php lua tclsh Rscript osascript")
WRAPPERS = names(
    """
    env sudo doas su eval exec source . xargs timeout time nice nohup stdbuf setsid command builtin watch strace
    ltrace flock parallel ssh chroot unshare nsenter script npx bunx uvx pipx ionice taskset setarch chrt
    runuser systemd-run { (( ( !
    """
)
MANY_IN_ONE = {"git"}
MAX_RULE = 1000
WILD = "\x01"
SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9_*-]*)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """One rule: a tool and, in parentheses, what of it. `text` is the rule as written."""

    text: str
    tool: str
    spec: str | None

    @cached_property
    def tokens(self):
        """The words of a Bash rule, quotes removed, each wildcard as one mark."""
        spec = self.spec or ""
        if spec.endswith(":*"):
            spec = spec[:-2] + " *"
        return _tokens(spec)

    @cached_property
    def exact(self):
        """True when the rule names one command, so that a person has read every word of it."""
        return self.spec is not None and not any(WILD in token for token in self.tokens)

    @cached_property
    def spelled(self):
        return frozenset(token for token in self.tokens if WILD not in token)

    @cached_property
    def hosts(self):
        """Hosts that a Bash rule names in its addresses."""
        found = (re.match(r"[a-z]+://([^/\x01?#]+)", token) for token in self.tokens)
        return frozenset(match.group(1).lower() for match in found if match)

    @cached_property
    def pattern(self):
        tokens = list(self.tokens)
        tail = ""
        if len(tokens) > 1 and tokens[-1] == WILD:
            tokens.pop()
            tail = "(?:\0.*)?"
        body = "\0".join(tokens)
        return re.compile("".join(".*" if c == WILD else re.escape(c) for c in body) + tail, re.DOTALL)

    def names(self, words):
        """True when this Bash rule's text fits the words of a command."""
        if any("\0" in word or WILD in word for word in words):
            return False
        return self.pattern.fullmatch("\0".join(words)) is not None

    def resembles(self, text, words):
        """True when a restricting rule should apply: more generous than `names`, since it only makes things wait."""
        if self.spec is None or self.spec in ("*", ""):
            return True
        program = [words[0].rsplit("/", 1)[-1], *words[1:]] if words else []
        if self.names(words) or self.names(program):
            return True
        return self.text_pattern.fullmatch(" ".join(text.split())) is not None

    @cached_property
    def text_pattern(self):
        return _glob(self.spec[:-2] + " *" if self.spec.endswith(":*") else self.spec)

    def path_pattern(self, world):
        """Return the regular expression of a file rule: `//abs`, `~/home`, `/workspace`, or below the cwd."""
        return _path_pattern(self.spec, world.root, world.home, world.cwd)

    def allows_path(self, place, world):
        """True when both ends of the path, as written and after symlinks, are covered."""
        pattern = self.path_pattern(world)
        return all(pattern.fullmatch(end) or pattern.fullmatch(end + "/") for end in (place.lexical, *place.reals))

    def meets_path(self, place, world):
        """True when a restricting rule should apply to either end, letters compared without case."""
        pattern = _path_pattern(self.spec, world.root, world.home, world.cwd, caseless=True)
        return any(pattern.fullmatch(end) for end in (place.lexical, *place.reals))


def parse_rule(text):
    """Read one rule; PolicyError says what is wrong with it."""
    if not isinstance(text, str) or not text.strip():
        raise PolicyError("A rule must be text such as Bash(git status).")
    if len(text) > MAX_RULE:
        raise PolicyError(f"A rule is at most {MAX_RULE} characters long.")
    if hidden_in(text) or "\n" in text:
        raise PolicyError(f"The rule {text!r} holds hidden characters.")
    match = SHAPE.fullmatch(text.strip())
    if not match:
        raise PolicyError(f"{text} is not a rule: write Tool or Tool(what), such as Bash(npm test).")
    return Rule(text.strip(), match.group(1), match.group(2))


def too_broad(rule):
    """Return why a rule must not stand in an allowing list, or None."""
    if "*" in rule.tool and not re.fullmatch(r"mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__[A-Za-z0-9_-]*\*?", rule.tool):
        return f"{rule.text} names no server, so it would allow tools that do not exist yet."
    if rule.tool != "Bash":
        return None
    tokens = rule.tokens
    if not tokens or WILD in tokens[0]:
        return f"{rule.text} names no program, so it would allow every command of that shape."
    program, rest = tokens[0].rsplit("/", 1)[-1], tokens[1:]
    before_wild = [t for t in rest[: next((i for i, t in enumerate(rest) if WILD in t), len(rest))] if t]
    if rule.exact:
        return None
    if program in WRAPPERS and all(re.fullmatch(r"-.*|.*=.*|[\d.]+[smhd]?", token) for token in before_wild):
        return f"{rule.text} starts any other program through {program}, so it would allow everything."
    reads_programs = program in SHELLS | INTERPRETERS or re.fullmatch(
        r"(?:python|perl|ruby|node|php|lua)[0-9.]+", program
    )
    if reads_programs and all(token.startswith("-") for token in before_wild):
        return f"{rule.text} runs any program text through {program}, so it would allow everything."
    if program in MANY_IN_ONE and all(token.startswith("-") for token in before_wild):
        return f"{rule.text} covers reading, pushing and rewriting alike: name the subcommand, such as {program} log."
    return None


def _tokens(spec):
    """Split a rule at blanks outside quotes; `*` outside quotes becomes a mark."""
    tokens, current, quote, started = [], [], "", False
    chars = iter(spec)
    for char in chars:
        if quote:
            if char == quote:
                quote = ""
            else:
                current.append(WILD if char == "*" else char)
        elif char in "'\"":
            quote, started = char, True
        elif char == "\\":
            current.append(next(chars, ""))
        elif char in " \t":
            if current or started:
                tokens.append("".join(current))
            current, started = [], False
        else:
            current.append(WILD if char == "*" else char)
    if current or started:
        tokens.append("".join(current))
    return tuple(tokens)


def _glob(pattern):
    return re.compile("".join(".*" if c == "*" else re.escape(c) for c in pattern), re.DOTALL)


@lru_cache(maxsize=4096)
def _path_pattern(spec, root, home, cwd, *, caseless=False):
    spec = (spec or "**").strip() or "**"
    if spec.startswith("//"):
        base, spec = "", spec[2:]
    elif spec.startswith("~/"):
        base, spec = home, spec[2:]
    elif spec.startswith("/"):
        base, spec = root, spec[1:]
    else:
        floating = "/" not in spec.rstrip("/") and not spec.startswith("./") and spec != "**"
        base, spec = cwd, ("**/" if floating else "") + spec.removeprefix("./")
    if spec.endswith("/"):
        spec += "**"
    flags = re.DOTALL | (re.IGNORECASE if caseless else 0)
    return re.compile(re.escape(base.rstrip("/")) + "/" + _gitignore(spec), flags)


def _gitignore(spec):
    out, index = [], 0
    while index < len(spec):
        if spec.startswith("**/", index):
            out.append("(?:.*/)?")
            index += 3
        elif spec.startswith("**", index):
            out.append(".*")
            index += 2
        else:
            char = spec[index]
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)))
            index += 1
    return "".join(out)

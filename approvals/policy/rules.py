"""Rules in Claude Code's syntax: parsing, refusing those too broad to store, and matching."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from .globs import Glob, PathGlob
from .hidden_characters import hidden_in
from .shell_words import names
from .step_budget import spend
from .verdict import PolicyError

FILE_WRITERS = ("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch")
FILE_READERS = ("Read", "Grep", "Glob", "LS", "NotebookRead")
SHELLS = names("sh bash dash zsh ksh fish csh tcsh busybox pwsh powershell ash rbash mksh yash elvish nu xonsh osh ysh")
INTERPRETERS = names("python python2 python3 node deno bun ruby perl php lua tclsh Rscript osascript")
WRAPPERS = names(
    """
    env sudo doas su eval exec source . xargs timeout time nice nohup stdbuf setsid command builtin watch strace
    ltrace flock parallel ssh chroot unshare nsenter script npx bunx uvx pipx ionice taskset setarch chrt
    runuser systemd-run { (( ( !
    """
)
MANY_IN_ONE = {"git"}
# Rules for a class of calls, which stand in the blocks [[when]] of a policy and hold for every tool alike.
CLASSES = {
    "writes": "what may change something on another system",
    "reads": "what only reads on another system",
    "calls": "every call",
}
MAX_RULE = 1000
WILD = "\x01"
NOWHERE = "/\0"  # a folder that no path can name, so that without a workspace relative rules cover nothing
SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9_*-]*)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """One rule: a tool and, in parentheses, a pattern of its input. `text` is the rule as written.

    One of a block `[[when]]` has its conditions in `text`; `at_target`: they name the target that a call acts on, so
    that the rule covers what a call does there.
    """

    text: str
    tool: str
    spec: str | None
    at_target: bool = False

    @property
    def written(self):
        """The rule as written, without the conditions of its block."""
        return self.tool if self.spec is None else f"{self.tool}({self.spec})"

    @cached_property
    def tokens(self):
        """The words of a Bash rule, without quotes, each wildcard as WILD."""
        spec = self.spec or ""
        if spec.endswith(":*"):
            spec = spec[:-2] + " *"
        return _tokens(spec)

    @cached_property
    def exact(self):
        """Return True if the rule names one exact command, so that a person has read every word of it."""
        return self.spec is not None and not any(WILD in token for token in self.tokens)

    @cached_property
    def spelled(self):
        return frozenset(token for token in self.tokens if WILD not in token)

    @cached_property
    def hosts(self):
        """The hosts in a Bash rule's URLs."""
        found = (re.match(r"[a-z]+://([^/\x01?#]+)", token) for token in self.tokens)
        return frozenset(match.group(1).lower() for match in found if match)

    @cached_property
    def patterns(self):
        """The patterns for a command's words joined by NUL; a trailing wildcard may also match no word at all."""
        tokens = self.tokens
        if len(tokens) > 1 and tokens[-1] == WILD:
            body = "\0".join(tokens[:-1])
            return Glob(body, WILD), Glob(f"{body}\0{WILD}", WILD)
        return (Glob("\0".join(tokens), WILD),)

    def names(self, line):
        """Return True if this Bash rule matches the words of a command (see `joined`)."""
        return line is not None and any(pattern.fits(line) for pattern in self.patterns)

    def resembles(self, form):
        """Return True if a restricting rule applies: broader than `names`, since it only makes a call wait."""
        if self.spec is None or self.spec in ("*", ""):
            return True
        return any(map(self.names, form.lines)) or self.text_glob.fits(form.text)

    @cached_property
    def text_glob(self):
        return Glob(self.spec[:-2] + " *" if self.spec.endswith(":*") else self.spec)

    def allows_path(self, place, world):
        """Return True if the path is covered both as written and after symlinks."""
        glob = _path_glob(self.spec, world.root or NOWHERE, world.home)
        return all(glob.fits(end) or glob.fits(end + "/") for end in (place.lexical, *place.reals))

    def meets_path(self, place, world):
        """Return True if a restricting rule applies to the path as written or after symlinks, ignoring case."""
        bases = (world.root or "", world.cwd)
        globs = [_path_glob(self.spec, base, world.home, caseless=True) for base in bases]
        if world.root is None and not (self.spec or "").startswith(("/", "~")):
            globs.append(_path_glob(f"//**/{self.spec or '**'}", "", world.home, caseless=True))
        ends = (place.lexical, *place.reals)
        return any(glob.fits(end) for glob in globs for end in ends)


@dataclass(frozen=True)
class Form:
    """A command as restricting rules match it: its words, the same with the bare program name, and its text."""

    lines: tuple
    text: str

    @classmethod
    def of(cls, text, words):
        spend(1 + len(text) // 16)
        program = [words[0].rsplit("/", 1)[-1], *words[1:]] if words else words
        return cls(tuple(dict.fromkeys((joined(words), joined(program)))), " ".join(text.split()))


def joined(words):
    """Return the words as one text for `Rule.names`, or None if they contain one of its separators."""
    text = "\0".join(words)
    spend(1 + len(text) // 16)
    return None if text.count("\0") != max(len(words) - 1, 0) or WILD in text else text


def parse_rule(text, *, where="", at_target=False):
    """Parse one rule; PolicyError says what is wrong with it. `where`: the conditions of its block, if it has one."""
    if not isinstance(text, str) or not text.strip():
        raise PolicyError(f"A rule must be text such as Bash(git status), not {text!r:.60}.")
    if len(text) > MAX_RULE:
        raise PolicyError(f"A rule can have at most {MAX_RULE} characters.")
    if hidden_in(text) or "\n" in text:
        raise PolicyError(f"The rule {text!r} contains hidden characters.")
    match = SHAPE.fullmatch(text.strip())
    if not match:
        raise PolicyError(f"{text} is not a rule: write Tool or Tool(what), such as Bash(npm test).")
    shown = f"{text.strip()}, where {where}" if where else text.strip()
    return Rule(shown, match.group(1), match.group(2), at_target)


def too_broad(rule):
    """Return why a rule must not be in an allowing list, or None."""
    if "*" in rule.tool and not _names_server(rule.tool):
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


def _names_server(tool):
    """Return True for `mcp__server__get_*`: a server without a wildcard, and one wildcard at the end."""
    server, _, name = tool.removeprefix("mcp__").partition("__")
    plain = server.strip("_") == server != "" and "*" not in server
    return tool.startswith("mcp__") and plain and name.endswith("*") and "*" not in name[:-1]


def _tokens(spec):
    """Split a rule at blanks outside quotes; each `*` becomes WILD."""
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


@lru_cache(maxsize=4096)
def _path_glob(spec, root, home, *, caseless=False):
    """Return the pattern of a file rule: `//absolute`, `~/home`, or relative to the workspace.

    Never relative to the cwd, which the agent controls.
    """
    spec = (spec or "**").strip() or "**"
    if spec.startswith("//"):
        base, spec = "", spec[2:]
    elif spec.startswith("~/"):
        base, spec = home, spec[2:]
    elif spec.startswith("/"):
        base, spec = root, spec[1:]
    else:
        floating = "/" not in spec.rstrip("/") and not spec.startswith("./") and spec != "**"
        base, spec = root, ("**/" if floating else "") + spec.removeprefix("./")
    if spec.endswith("/"):
        spec += "**"
    return PathGlob(base.rstrip("/") + "/", spec, caseless=caseless)

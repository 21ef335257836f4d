"""Look up what is known about a program and turn its words into effects."""

import re
from dataclasses import replace

from .. import impacts
from ..paths import glob_may_hit_secret, is_secret
from ..shell_words import HASH, names
from ..verdict import worst
from . import local_forms, searches
from .edits import edited_in_place
from .grammar import Grammar, parse_table, read_arguments
from .scripts import script_effects
from .tables import BUILDS, READS, WRITES
from .weighing import weighed

# Letters of options with which a program follows symbolic links.
FOLLOWING = {"grep": "rR", "egrep": "rR", "fgrep": "rR", "rg": "L", "fd": "L", "find": "L"}
HANDLERS = {}
KINDS = {}
LISTERS = names("ls tree du df fd fdfind eza exa cloc tokei scc")
TEXT_ONLY = {"echo", ":", "true", "false", "printf", "test", "[", "[["}
# Programs that print names, sizes and times of files, and nothing of what is in them.
NAMES_ONLY = LISTERS - {"cloc", "tokei", "scc"} | names("stat file wc realpath readlink")
# Programs without any option that writes or starts something: an option from a wildcard does no harm there.
HARMLESS_FLAGS = TEXT_ONLY | {
    "ls", "cat", "grep", "egrep", "fgrep", "wc", "head", "tail", "stat", "du", "basename", "dirname", "cut", "md5sum",
    "sha256sum", "realpath", "readlink", "nl", "tac", "rev", "cksum", "file",
}  # fmt: skip
OWN_TOOLS = re.compile(r"(?:\./)?(?:\.?venv/bin|node_modules/\.bin)/([\w.-]+)")
SETTINGS = {
    "git": (".git/config", ".gitconfig", ".gitattributes", "HEAD"),
    "npm": (".npmrc",),
    "pnpm": (".npmrc", ".pnpmfile.cjs"),
    "yarn": (".yarnrc", ".yarnrc.yml"),
    "cargo": (".cargo/config.toml", ".cargo/config"),
    "curl": (".curlrc",),
    "wget": (".wgetrc",),
    "sqlite3": (".sqliterc",),
}
# Programs that start or load what a file of the workspace names (.npmrc, .yarnrc.yml, rust-toolchain.toml, a Gemfile,
# go.mod, plugins), even to print their version.
OBEYING = names(
    """
    npm pnpm yarn bun npx bunx deno bundle bundler gem rake composer poetry pipenv uv uvx pip pip3 pipx conda pdm hatch
    cargo rustc rustup rustfmt clippy-driver go gofmt make gmake just task cmake ctest ninja meson bazel scons mvn
    gradle ant sbt mix rebar3 dotnet swift stack cabal opam dune zig ansible ansible-playbook terraform tofu helm
    vagrant pre-commit tox nox mise asdf direnv nx turbo lerna ack
    """
)
PROGRAM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
# Well-known programs that print their version and do nothing else.
VERSIONED = names(
    """
    rustc rustup cargo gcc g++ cc c++ clang clang++ ld cmake ctest make ninja meson java javac kotlin scala ghc ocaml
    elixir swift zig nim dart flutter deno bun node npm pnpm yarn python python3 pip pip3 uv poetry ruby gem bundle php
    composer perl lua go gradle mvn sbt dotnet bazel terraform kubectl helm docker podman psql mysql sqlite3 redis-cli
    ffmpeg pandoc protoc jq yq rg fd hugo mise asdf golangci-lint shellcheck curl wget tar openssl claude codex
    """
)
OPTION_VALUE = re.compile(r"-{0,2}[A-Za-z][\w-]*=")
ADDRESS = re.compile(r"https?://[^\s'\"]+")
# Where a path leads that no program of the project needs, unlike /api or /regex/.
OUTSIDE = re.compile(r"(?:~|\.\.|/(?:home|Users|root|etc|var|srv|mnt|media|run|proc|sys|dev|boot))(?:/[^\s'\"]*)?$")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:\[{(!+@-][A-Za-z0-9_./+\[\]:@-]*|/[A-Za-z0-9_./+-]+")


def handles(*names):
    """Register a handler: (name, words after it, Simple, Judge) → effects."""

    def register(function):
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return register


def kind(name):
    """Register the judgement of a kind of argument: (word, program name, Judge) → effects."""

    def register(function):
        KINDS[name] = function
        return function

    return register


def program_effects(words, simple, judge):
    """Return what a program does with these words; the first one is its name."""
    first = words[0]
    if not first.literal or not first.plain or first.splits:
        return [impacts.starts("starts a program whose name is unknown until it runs")]
    name = first.text
    if not PLAIN_NAME.fullmatch(name):
        return [impacts.unknown(f"starts {name[:40]!r}, which is not a plain program name")]
    if "/" in name:
        if not name.startswith(PROGRAM_FOLDERS) or ".." in name:
            found = [*_foreign(words[1:]), *_own_program(name, words, simple, judge)]
            return weighed(name.rpartition("/")[2], words[1:], simple, judge, found, shown=name)
        name = name.rsplit("/", 1)[-1]
    found = _by_name(name, words, simple, judge)
    tier = worst(effect.tier for effect in found)
    if tier in ("medium", "high") and (local := local_forms.effect_of(name, words[1:])):
        judge.within += named_in(words[1:], judge)
        calm = [replace(effect, held="runs") for effect in found if effect.tier != "high"]
        return [*calm, *([local] if tier == "high" else [])]
    if any(effect.kind in ("start", "unknown", "run") for effect in found):
        judge.within += named_in(words[1:], judge)
    return weighed(name, words[1:], simple, judge, found)


def _by_name(name, words, simple, judge):
    """Return the effects of a program in one of the system's folders."""
    if name in VERSIONED and len(words) == 2 and words[1].literal and words[1].text == "--version":
        return _obeyed(name, [], [])
    found = _wildcard_flags(name, words[1:]) + _own_settings(name, judge)
    if name not in ("test", "[", "[["):
        found += _foreign(words[1:])
    judge.follows = follows_links(name, words[1:])
    if name in HANDLERS:
        found += HANDLERS[name](name, words[1:], simple, judge)
    elif grammar := READS.get(name) or BUILDS.get(name) or WRITES.get(name):
        found += by_grammar(grammar, name, words[1:], simple, judge)
    else:
        found += unknown_program(name, words, judge)
    return found + _obeyed(name, words[1:], found)


def _obeyed(name, words, found):
    """Return one more effect if a program that obeys files of the workspace would count as only reading."""
    module = name.startswith("python") and any(word.text.startswith("-m") for word in words)  # ./json.py hides json
    if (name in OBEYING or module) and all(effect.tier == "low" for effect in found):
        return [impacts.builds(f"runs {name}, which obeys settings and programs of the workspace")]
    return []


def unknown_program(name, words, judge):
    """Return the effects of a program in no table: unknown, or as a trusted one what its words seem to start."""
    before = len(judge.within)
    for index, word in enumerate(words[1:], 1):
        # The last word may be the value of an option before it, such as `--shell zsh`.
        value = index == len(words) - 1 and words[index - 1].text.startswith("-") and words[index - 1].text != "--"
        if word.literal and word.text not in TEXT_ONLY and is_known(word.text) and not value:
            judge.also.append([each.text for each in words[index:]])
            judge.within += judge.inner(words[index:])
            break
    judge.within += named_in(words[1:], judge)
    edited = edited_in_place(name, words[1:], judge)
    if name in judge.world.trusted_programs:
        return [impacts.builds(f"runs {name[:80]}, which the policy trusts"), *edited, *judge.within[before:]]
    return [impacts.unknown(f"runs {name}, which Handrail doesn't know"), *edited]


def is_known(name):
    return any(name in known for known in (HANDLERS, READS, BUILDS, WRITES))


def runs_project_code(name):
    """Return True for programs that run or obey files of the workspace anyway, wherever they come from themselves."""
    return name in BUILDS or name in OBEYING or name in ("node", "deno", "python", "python2", "python3", "pip", "pip3")


def named_in(words, judge):
    """Return effects of words that plainly name a secret, a place outside the workspace or an address."""
    found = []
    for word in words:
        text = word.text.partition("=")[2] if OPTION_VALUE.match(word.text) else word.text
        if ADDRESS.fullmatch(text):
            found.append(impacts.contacts(text))
        elif text and not word.pipe and (OUTSIDE.match(text) or is_secret(text.split("/"))):
            found += judge.reads(type(word)(text, opaque=word.opaque, glob=word.glob))
    return [effect for effect in found if effect.tier not in ("low", "medium") and effect.kind != "unknown"]


def _own_program(name, words, simple, judge):
    """Return the effects of running a program by a path outside the system's folders."""
    place = judge.places(words[0])[0]
    own = OWN_TOOLS.fullmatch(name)
    if own and not simple.moved and (own[1] in BUILDS or own[1] in ("python", "python3", "pip")):
        inner = program_effects([type(words[0])(own[1]), *words[1:]], simple, judge)
        return [*inner, impacts.builds(f"runs {name}, which the project installed")]
    if name in ("./gradlew", "./mvnw", "./node_modules/.bin/jest", "./node_modules/.bin/tsc") and not simple.moved:
        return HANDLERS["gradle"](name, words[1:], simple, judge)
    found = unknown_program(name, words, judge)
    if found[0].kind == "unknown":
        found = script_effects(name, name, judge, arguments=words[1:], shown=place.label(judge.world.root))
    if simple.moved and not name.startswith("/"):
        found.append(impacts.unclear(f"runs {name} of another folder"))
    return found


def _wildcard_flags(name, words):
    """Return an effect if a wildcard or unknown text could become an option."""
    if name in HARMLESS_FLAGS:
        return []
    for before, word in zip([None, *words], words, strict=False):
        if word.text == "--" and word.literal:
            return []
        # After an option it may be that option's value; the table knows, and asks otherwise.
        value = before is not None and before.text.startswith("-") and not word.splits
        loose = (word.glob and word.text[:1] in "*?[") or (word.splits and word.opaque)
        loose = loose or (word.text[:1] == "\ufffc" and not value and not (name == "git" and HASH in word.inner))
        if loose and not word.pipe:
            return [impacts.unknown(f"has an argument that could expand to options, so {name} can't be checked")]
    return []


def _own_settings(name, judge):
    """Return an effect if the program's settings in the workspace are new: they can make it run something."""
    fresh = judge.world.fresh(SETTINGS.get(name, ()))
    return [impacts.unclear(f"runs {name} under {fresh}, which can change what it does")] if fresh else []


def _foreign(words):
    if any(word.foreign for word in words):
        return [impacts.unclear("uses a variable whose value is unknown until it runs")]
    return []


def by_grammar(grammar, name, words, simple, judge):
    """Return the effects of words by a program's grammar."""
    arguments, problems = read_arguments(grammar, words)
    judge.rewrites = rewrites(name, {word.text for word in words})
    judge.opens = name not in LISTERS
    judge.names_only = name in NAMES_ONLY
    searches.set_up(name, words, judge)
    # busybox's grep follows links for -r; with a choice of names as well, only those count that -R follows.
    judge.follows &= judge.opens or name not in searches.SEARCHES or not {"-r", "-rn"} & {word.text for word in words}
    found = judged_arguments(arguments, problems, name, judge)
    judge.names_only = False
    if name in searches.SEARCHES and not any(a.kind == "dir" and not a.word.glob for a in arguments):
        found += searches.of_current_folder(name, words, simple, judge)
    if grammar.nature == "builds":
        found.append(impacts.builds(f"runs {name}, which runs the project's own code"))
    return found


def follows_links(name, words):
    """Return True if a program reads what symbolic links in a folder lead to."""
    letters = FOLLOWING.get(name, "")
    texts = [word.text for word in words]
    short = any(set(text) & set(letters) for text in texts if re.match("-[^-]", text))
    # What cp and tar copy as a link can be read through its copy.
    follows = name in ("diff", "zip", "cp", "tar") or short
    return follows or bool(set(texts) & {"--dereference", "--dereference-recursive", "--follow"})


def rewrites(name, texts):
    """Return True if a formatter changes the files that it is given."""
    if texts & {"--fix", "--write", "-w", "-i", "--in-place"}:
        return True
    formats = name in ("black", "isort", "rustfmt") or (name == "ruff" and "format" in texts)
    return formats and not texts & {"--check", "--diff", "--check-only", "-c"}


def paths_inside(words, judge):
    """Return effects of words that name files outside the workspace, or secrets."""
    return [e for word in words if not word.text.startswith("-") for e in judge.reads(word) if e.tier != "low"]


def judged_arguments(arguments, problems, name, judge):
    """Return the effects of arguments in their roles, and one for each problem."""
    found = [impacts.unknown(sentence) for sentence, _ in problems]
    for argument in arguments:
        found += argument_effects(argument, name, judge)
    return found


def argument_effects(argument, name, judge):
    role, word = argument.kind, argument.word
    if role in ("in", "dir"):
        return judge.reads(word, folder=role == "dir" and (judge.opens or judge.follows))
    if role == "out":
        return judge.writes(word)
    if role in ("gone", "moved"):
        return judge.writes(word, "deletes" if role == "gone" else "moves")
    if role in KINDS:
        return KINDS[role](word, name, judge)
    if word.opaque and word.splits and name not in TEXT_ONLY:
        return [impacts.unknown("has an argument that is unknown until it runs")]
    return []


@kind("num")
def number(word, name, judge):
    if re.fullmatch(r"[+-]?[\d.]*[A-Za-z%]*", word.text):
        return []
    return [impacts.unknown(f"has {word.text[:40]} where {name} takes a number")]


@kind("glob")
def glob(word, name, judge):
    if glob_may_hit_secret(word.text.lstrip("!")) and not word.text.startswith("!"):
        return [impacts.unknown(f"searches {word.text[:40]}, where secrets are kept", held="asks")]
    return []


@kind("format")
def date_format(word, name, judge):
    return [] if word.text.startswith("+") else [impacts.harmful("sets the clock", spelled=word.text)]


@kind("mode")
def mode(word, name, judge):
    if re.search(r"[st]|^[0-7]?[2-7][0-7]{3}$", word.text):
        return [impacts.harmful("gives a file the rights of its owner (setuid)", spelled=word.text)]
    return []


@kind("edit")
def edited(word, name, judge):
    """Judge a file or folder that a formatter reads, or rewrites if `judge.rewrites` (see `by_grammar`)."""
    return judge.writes(word) if judge.rewrites else judge.reads(word)


@kind("ruff")
def ruff_verb(word, name, judge):
    return [] if word.text in ("check", "format", "rule", "version") else [impacts.unknown("uses ruff in another way")]


def plain_kinds():
    """Register the kinds of arguments that are harmless in a plain form only."""
    forms = {
        "plain": (r"[A-Za-z][\w-]*", "names a file of its own where a name belongs"),
        "topic": (r"[\w.:+@-]+", "names a file where a topic belongs"),
        "socket": (r"(?:tcp|udp)?:?[\d,-]+|(?:tcp|udp)|sport|=|:\d+", "looks at more than sockets"),
        "processes": (r"[acfjlruvwxU]+|\d+", "shows more of processes than their names"),
        "column": (r"(?:(?!env)[a-z%_]+[=:\w]*,?)+", "shows more of processes than their names"),
        "session": (r"run|r|p|list|l|run-parallel", "passes words on to a command"),
        "triple": (r"[\w-]+", "names a file where a target belongs"),
    }
    for name, (form, says) in forms.items():
        KINDS[name] = _only(re.compile(form), says)


def _only(form, says):
    def judged(word, name, judge):
        return [] if word.literal and form.fullmatch(word.text) else [impacts.unknown(f"{says}: {word.text[:40]}")]

    return judged


plain_kinds()


@kind("link")
def link(word, name, judge):
    """Judge both ends of a link as edits, since its target can be written through it."""
    return judge.writes(word, "links")


def sub_table(text):
    """Parse lines such as `git log : … : …` into {whole name, such as "git log": Grammar}."""
    table = {}
    for line_name, grammar in parse_table(text, "reads").items():
        table[line_name] = grammar
    return table


__all__ = ["HANDLERS", "Grammar", "by_grammar", "handles", "kind", "parse_table", "program_effects", "sub_table"]

"""Build tools and runtimes: a project's own tests and tasks, and whatever else they start."""

import re

from .. import impacts
from ..shell_words import Word
from .registry import handles, kind, paths_inside
from .scripts import script_effects

# Scripts with such names build or check; others may publish or deploy, so a rule has to name them.
CALM_SCRIPT = re.compile(
    r"(?:tests?|check|lint|format|fmt|build|compile|typecheck|types|tsc|coverage|unit|e2e|integration|spec|verify|validate"
    r"|clean|docs?|dev|bench|storybook|prettier|eslint|style|ci|all|watch|dist|help|mypy|ruff)(?:[:_.-][\w:.-]+)?"
)
LOUD_PART = re.compile(r"deploy|publish|release|push|upload|prod|migrate|destroy|drop|install")


GRADLE = re.compile(
    r"(?:build|test|check|assemble|clean|compile\w*|lint\w*|verify|package|spotless\w*|dependencies|tasks|help)"
)


@kind("tests")
def tests(word, name, judge):
    path = word.text.split("::")[0]
    if word.opaque:
        return [impacts.unknown("runs tests that are unknown until it runs")]
    return [e for e in judge.reads(Word(path, glob=word.glob)) if e.tier != "low"] if path else []


@kind("package")
def package(word, name, judge):
    return [e for e in judge.reads(Word(word.text.replace("...", "x"))) if e.tier != "low"]


@kind("target")
def target(word, name, judge):
    """Judge a make target; a variable set on the command line can become a command in the makefile."""
    if "=" in word.text or word.opaque or not re.fullmatch(r"[\w./:@%+-]+", word.text):
        return [impacts.unknown("sets a variable of the makefile")]
    return task_effects(word.text, name)


@kind("ldflags")
def linker_flags(word, name, judge):
    texts = word.text.replace("-X ", "-X=").split()
    plain = all(re.fullmatch(r"-[sw]|-X=[\w./-]+=[\w.:/+-]*", text) for text in texts)
    return [] if plain else [impacts.unknown("passes flags to the linker that can start a program")]


@kind("coverage")
def coverage_report(word, name, judge):
    if re.fullmatch(r"term(?:-missing)?(?::skip-covered)?|xml|html|json|lcov|annotate|", word.text):
        return []
    kind_of, _, path = word.text.partition(":")
    if word.literal and kind_of in ("xml", "html", "json", "lcov", "annotate") and path:
        return judge.writes(Word(path))
    return [impacts.unknown("writes its report elsewhere")]


def task_effects(script, name):
    """Return the effects of a project's script, judged by its name."""
    if CALM_SCRIPT.fullmatch(script) and not LOUD_PART.search(script):
        return [impacts.builds(f"runs {name} {script}, which runs the project's own code")]
    return [impacts.starts(f"runs {name} {script[:60]}, which can do anything the project says", script)]


@handles(
    "gradle",
    "mvn",
    "gradlew",
    "mvnw",
    "dotnet",
    "rake",
    "just",
    "task",
    "bazel",
    "meson",
    "swift",
    "mix",
    "sbt",
)
def gradle(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts and all(
        GRADLE.fullmatch(text) or text in ("-q", "--info", "--quiet", "--version", "-v", "--no-daemon", "--offline")
        for text in texts
    ):
        return [impacts.builds(f"runs {name} {texts[0]}, which runs the project's own code")]
    return [impacts.starts(f"runs {name} with words that are not known to be harmless", texts[0] if texts else "")]


@handles("node", "deno")
def node(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts in (["--version"], ["-v"]):
        return []
    if name == "node" and texts[:1] in (["--check"], ["-c"]) and len(texts) == 2:
        return judge.reads(words[1])
    if name == "node" and texts[:1] == ["--test"]:
        return [impacts.builds("runs node --test, which runs the project's own code"), *paths_inside(words[1:], judge)]
    if texts[:1] and texts[0] in ("-e", "--eval", "-p", "--print"):
        return [impacts.starts(f"runs program text through {name}")]
    script = next((text for text in texts if not text.startswith("-")), None)
    plain = script is not None and texts[0] == script
    return script_effects(script or "program text", script if plain else "", judge)

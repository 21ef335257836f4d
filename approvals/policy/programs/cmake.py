"""cmake and ctest: configuring and building in a folder of the workspace."""

import re

from .. import impacts
from .grammar import parse_table, read_arguments
from .registry import handles, judged_arguments, kind

CONFIGURE = parse_table(
    "cmake : -B=out -S=dir -G=text -A=text -D=cache --preset=text --fresh -Wno-dev -N --log-level=text : dir?",
    "single-dash",
)["cmake"]
BUILD = parse_table(
    "cmake : --build=out -j=num? --parallel=num? --target=text -t=text --config=text --clean-first -v --verbose :",
    "single-dash",
)["cmake"]
CTEST = parse_table(
    "ctest : --test-dir=dir -j=num? --parallel=num? --output-on-failure -V -VV -R=text -E=text -L=text -C=text -N"
    " --timeout=num --rerun-failed --stop-on-failure -Q --quiet --progress :",
    "single-dash",
)["ctest"]
# Entries of the cache that name programs or files to run.
STARTS = re.compile(r"COMPILER|LAUNCHER|COMMAND|PROGRAM|LINKER|TOOLCHAIN|EXECUTABLE|INCLUDE|MODULE|RULE|_DIR|PREFIX")


@kind("cache")
def cache_entry(word, name, judge):
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)(?::[A-Z]+)?=([\w.+-]*)", word.text)
    if match and not STARTS.search(match[1].upper()):
        return []
    return [impacts.unknown("sets a variable of cmake that can name a program")]


@handles("cmake")
def cmake(name, words, simple, judge):
    grammar = BUILD if words and words[0].text == "--build" else CONFIGURE
    return [*_judged(grammar, words, judge), impacts.builds("runs cmake, which runs the project's own code")]


@handles("ctest")
def ctest(name, words, simple, judge):
    return [*_judged(CTEST, words, judge), impacts.builds("runs ctest, which runs the project's own code")]


def _judged(grammar, words, judge):
    apart = []
    for word in words:
        if re.fullmatch(r"-j\d+", word.text):
            continue
        # -DNAME=value is one word.
        glued = re.match(r"-([DBSG])(.+)", word.text) if not word.text.startswith("--") else None
        apart += [type(word)(f"-{glued[1]}"), type(word)(glued[2], opaque=word.opaque)] if glued else [word]
    arguments, problems = read_arguments(grammar, apart)
    return judged_arguments(arguments, problems, grammar.name, judge)

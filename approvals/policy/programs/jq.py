"""jq: the filters that only compute."""

import re

from .. import impacts
from .grammar import parse_table
from .registry import by_grammar, handles, kind

OPTIONS = parse_table(
    """
    jq : -n -r -R -j -a -c -s -S -e -M -C --raw-output --compact-output --slurp --raw-input --null-input --sort-keys
        --exit-status --join-output --ascii-output --color-output --monochrome-output --tab --indent=num
        --arg=pair --argjson=pair : jq in*
    """,
    "reads",
)["jq"]


@handles("jq")
def jq(name, words, simple, judge):
    return by_grammar(OPTIONS, name, words, simple, judge)


@kind("jq")
def jq_filter(word, name, judge):
    if word.opaque or word.splits:
        return [impacts.unknown("has a filter that is unknown until it runs")]
    if re.search(
        r"(?<![.\w\"])env\b|\$ENV|\b(?:import|include|input_filename|modulemeta|get_search_list)\b", word.text
    ):
        return [impacts.unknown("has a filter that reads the environment or other files")]
    return []

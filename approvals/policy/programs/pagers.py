"""less and more, which start programs when a person at their terminal asks for that."""

from .. import impacts
from .grammar import parse_table
from .registry import by_grammar, handles

PAGER = parse_table(
    "less : -# -NRSFXEeiIMmnr --quit-if-one-screen --no-init --RAW-CONTROL-CHARS --LINE-NUMBERS : in*", "reads"
)["less"]


@handles("less", "more")
def pager(name, words, simple, judge):
    """Judge a pager, which starts programs when a person at its terminal asks for that; without one it only prints."""
    shown = tuple(word.text for word in words if not word.text.startswith("-"))
    if any(word.text.startswith("+") for word in words):  # such as +!id: it starts by running a command of its own
        return [impacts.starts(f"gives {name} a command to run")]
    return [*by_grammar(PAGER, name, words, simple, judge), impacts.builds(f"shows a text with {name}", shown or name)]

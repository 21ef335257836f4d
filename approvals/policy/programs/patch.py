"""patch, which writes the files that a patch names."""

from .. import impacts
from ..opens import everything_below
from .edits import edited_in_place
from .registry import handles


@handles("patch")
def patch(name, words, simple, judge):
    if any(word.text == "--dry-run" for word in words):
        return [impacts.unknown("reads files that the patch names")]
    named = any(not word.text.startswith(("-", "+")) for word in words)
    into = () if named else everything_below(*judge.simple.cwds)
    written = impacts.Effect("write", "writes the files that the patch names", "high", "yes", held="runs", opens=into)
    return [written, *edited_in_place(name, words, judge)]

"""Bash text to a syntax tree, by `shfmt --to-json`: a real parser for the dialect that runs the command."""

import json
import subprocess
import sysconfig
from functools import cache, lru_cache
from pathlib import Path

MAX_COMMAND = 10_000  # characters; longer than a person reads, so it waits anyway
MAX_DEPTH = 100  # brackets open at once; the tree's text grows with the square of its depth
MAX_WORDS = 2_000
MAX_SEPARATORS = 600
MAX_REMEMBERED = 400  # characters
TIME_LIMIT = 2.0  # seconds


class Unreadable(Exception):
    """The text is not one that the engine can take apart; the message says why."""


@cache
def _parser():
    """Find the wheel's binary beside this Python, never through PATH, which an agent may influence."""
    return Path(sysconfig.get_path("scripts")) / "shfmt"


def check_size(command):
    """Raise Unreadable for text whose tree would be larger than anybody could read."""
    if len(command) > MAX_COMMAND:
        raise Unreadable(f"it is {len(command):,} characters long, more than can be judged")
    separators = sum(map(command.count, ";&|"))
    if len(command.split()) > MAX_WORDS or separators > MAX_SEPARATORS:
        raise Unreadable("it holds more words or commands than can be judged")
    depth = deepest = 0
    for char in command:
        depth += (char in "({") - (char in ")}")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise Unreadable("it is nested too deeply")


def parse(command):
    """Return the syntax tree of a command as dicts; positions are byte offsets into its UTF-8."""
    check_size(command)
    return remembered(command) if len(command) <= MAX_REMEMBERED else _tree(command)


# Trees are a thousand times the size of their text, so only those of short commands are kept.
@lru_cache(maxsize=256)
def remembered(command):
    return _tree(command)


def _tree(command):
    try:
        done = subprocess.run(
            [_parser(), "-ln=bash", "--to-json"],
            input=command.encode(),
            capture_output=True,
            timeout=TIME_LIMIT,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreadable("it takes too long to take apart") from None
    except OSError as error:
        raise Unreadable(f"the shell parser did not start ({error.strerror})") from None
    except UnicodeEncodeError:
        raise Unreadable("it is not valid Unicode") from None
    if done.returncode:
        raise Unreadable("it is not complete shell text")
    try:
        return json.loads(done.stdout)
    except (ValueError, RecursionError):
        raise Unreadable("it is nested too deeply") from None

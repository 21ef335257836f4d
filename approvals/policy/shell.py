"""Parse Bash with `shfmt --to-json`: a real parser for the dialect that runs the command."""

import json
import os
import re
import select
import subprocess
import sysconfig
import time
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from .step_budget import spend

MAX_COMMAND = 10_000  # characters; longer than a person reads, so it always asks
MAX_DEPTH = 100  # nested brackets
MAX_WORDS = 2_000
MAX_SEPARATORS = 600
MAX_REMEMBERED = 400  # characters of a command whose tree is cached
MAX_TREE = 1_000_000  # bytes; its indentation grows with the square of the depth
TIME_LIMIT = 2.0  # seconds of wall-clock time
PROCESSOR_LIMIT = 0.1  # seconds of processor time
PARSE_STEPS = 10_000  # steps charged for starting the parser
BRACES = re.compile(r"\{[^}]*(?:,|\.\.)")  # expanded by bash only


class Unreadable(Exception):
    """The engine cannot parse this text; the message says why."""


@cache
def _parser():
    """Return shfmt's path beside this Python; never search PATH, which an agent may influence."""
    return Path(sysconfig.get_path("scripts")) / "shfmt"


def check_size(command):
    """Raise Unreadable for text whose tree would be too large to read."""
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
    """Return the syntax tree of a command as dicts; positions are byte offsets into its UTF-8. Raise Unreadable."""
    spend(PARSE_STEPS + 10 * len(command))
    check_size(command)
    return remembered(command) if len(command) <= MAX_REMEMBERED else _tree(command)


def reads_equally(text):
    """Return True if a POSIX shell certainly takes this text apart as bash does. Raise Unreadable."""
    bash = parse(text)
    spend(PARSE_STEPS + 10 * len(text))
    if BRACES.search(text):
        return False
    try:
        return _tree(text, "posix") == bash
    except Unreadable:
        return False


# A tree is a thousand times the size of its text, so only those of short commands are cached.
@lru_cache(maxsize=256)
def remembered(command):
    return _tree(command)


def _tree(command, dialect="bash"):
    try:
        text = command.encode()
    except UnicodeEncodeError:
        raise Unreadable("it is not valid Unicode") from None
    try:
        parser = subprocess.Popen(
            [_parser(), f"-ln={dialect}", "--to-json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"GOMAXPROCS": "1"},
        )
    except OSError as error:
        raise Unreadable(f"the shell parser did not start ({error.strerror})") from None
    with parser:
        try:
            answer = _ask(parser, text)
        finally:
            parser.kill()
    if parser.returncode:
        raise Unreadable("it is not complete shell text")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise Unreadable("it is nested too deeply") from None


def _ask(parser, text):
    """Return the parser's output. Raise Unreadable if that is too large or takes too long."""
    with suppress(BrokenPipeError):
        parser.stdin.write(text)  # does not block: a pipe buffers more than MAX_COMMAND
        parser.stdin.close()
    ready, chunks, size = select.poll(), [], 0
    ready.register(parser.stdout, select.POLLIN | select.POLLHUP)
    until = time.monotonic() + TIME_LIMIT
    while True:
        if not ready.poll(20):
            if time.monotonic() > until or _processor_seconds(parser.pid) > PROCESSOR_LIMIT:
                raise Unreadable("it takes too long to take apart")
            continue
        chunk = os.read(parser.stdout.fileno(), 1 << 20)
        if not chunk:
            parser.wait()
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_TREE:
            raise Unreadable("it has more parts than can be judged")


def _processor_seconds(pid):
    """Return a process's processor time in seconds, which a busy machine does not distort; 0 if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

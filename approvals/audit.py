"""`python -m approvals.audit verify FILE`: verify an exported event log offline, without Handrail's database."""

import argparse
import json
import re
import sys
from pathlib import Path

from dashboard.event_log.chain import BadEvent, verify

NOTE = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


def main(arguments=None):
    """Run the command line; return 0 if the log verifies, else print one line with the reason and return 1."""
    options = _parser().parse_args(arguments)
    try:
        checkpoint = read_checkpoint(options.checkpoint) if options.checkpoint else None
        with _opened(options.file) as lines:
            checked = verify(lines, checkpoint)
    except (BadEvent, OSError) as error:
        print(_shown(str(error) if isinstance(error, BadEvent) else f"{options.file}: {error.strerror}"))
        return 1
    if checked.filters is not None:
        return _tell_filtered(checked, options.verb)
    if options.verb == "checkpoint":
        print(f"{checked.last}:{checked.head}")
    elif checked.first == 1:
        events = f"events 1 to {checked.last} of team {_shown(checked.team)}"
        unknown = "; whether later ones were cut off, only a checkpoint tells (--checkpoint)"
        print(f"complete and unchanged: {events}" if checkpoint else f"unchanged: {events}{unknown}")
    else:
        print(
            f"unchanged: events {checked.first} to {checked.last} of team {_shown(checked.team)}; "
            f"events 1 to {checked.first - 1} are not in this file"
        )
    return 0


def _tell_filtered(checked, verb):
    """Print how far a filtered export verifies; a checkpoint cannot be made from one."""
    left_out = ", ".join(f"{name}={value}" for name, value in checked.filters.items())
    if verb == "checkpoint":
        print(f"This export is filtered ({_shown(left_out)}): a checkpoint takes the whole log.")
        return 1
    print(
        f"filtered ({_shown(left_out)}): {checked.count} of the events {checked.first} to {checked.last} of team "
        f"{_shown(checked.team)} are unchanged; what was left out cannot be checked with this file"
    )
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m approvals.audit", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, words in (("verify", "check an export"), ("checkpoint", "check it and print SEQ:HASH to keep elsewhere")):
        command = verbs.add_parser(verb, help=words)
        command.add_argument("file", help="the export, JSON lines; - for standard input")
        command.add_argument("--checkpoint", help="SEQ:HASH, or a file that holds one or an earlier export")
    return parser


def _opened(name):
    return sys.stdin.buffer if name == "-" else Path(name).open("rb")


def read_checkpoint(text):
    """Return (seq, hash) from SEQ:HASH, or from the last line of a file, which is SEQ:HASH or an event."""
    match = NOTE.fullmatch(text.strip().lower())
    if not match:
        try:
            lines = Path(text).read_bytes().decode(errors="replace").strip().splitlines()
        except (OSError, ValueError):
            raise BadEvent(f"The checkpoint {text[:80]} is neither SEQ:HASH nor a file that can be read.") from None
        last = lines[-1].strip() if lines else ""
        match = NOTE.fullmatch(last.lower()) or _noted_event(last)
    if not match:
        raise BadEvent(f"The checkpoint file {text[:80]} holds no SEQ:HASH and no event.")
    return int(match[1]), match[2]


def _noted_event(line):
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return NOTE.fullmatch(f"{event.get('seq')}:{event.get('hash')}") if isinstance(event, dict) else None


def _shown(text):
    """Escape the non-printable characters in text from the file, as it is printed on a terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:500])


if __name__ == "__main__":
    sys.exit(main())

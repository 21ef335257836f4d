"""`python -m handrail_verify`: verify a log, a manifest, a receipt, approvals with passkeys or a backup, offline.

Ends with 0 if it verifies, 1 if not, 2 if it can't be told here.
"""

import argparse
import sys
from pathlib import Path

from handrail_verify import backup, log

NO_STORE = (
    "A store can't be verified here: it is compressed with zstd and hashed with BLAKE3, which Python does not bring. "
    "Where Handrail is installed run: python -m workspaces.store verify --full STORE"
)


def main(arguments=None) -> int:
    """Run the command line and return its exit status."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except OSError as error:
        print(shown(f"{error.filename or options.file}: {error.strerror}"))
    except ImportError as error:
        print(shown(f"This needs the package cryptography, in its newest version: {error}"))
        return 2
    except ValueError as error:  # BadEvent, BadManifest, BadRecords, BadBackup
        print(shown(str(error)))
    return 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m handrail_verify", description=__doc__)
    verbs = made.add_subparsers(required=True, metavar="WHAT")

    def verb(name, run, words, file):
        command = verbs.add_parser(name, help=words)
        command.add_argument("file", metavar="FILE", help=file)
        command.set_defaults(run=run)
        return command

    for name, run, words in (
        ("log", verify_log, "an exported event log"),
        ("checkpoint", note_checkpoint, "the same, and print SEQ:HASH to keep elsewhere"),
    ):
        command = verb(name, run, words, "the export, JSON lines; - for standard input")
        command.add_argument("--checkpoint", help="SEQ:HASH, or a file that holds one or an earlier export")
    for name, run in (("manifest", verify_manifest), ("receipt", verify_receipt)):
        command = verb(name, run, f"a downloaded {name}", f"the {name}, JSON; - for standard input")
        command.add_argument("--key", required=True, help="the public key in base64, or a file that holds it")
    command = verb(
        "passkeys", verify_passkeys, "approvals that passkeys confirmed", "from manage.py verify_passkeys --export"
    )
    command.add_argument("--log", action="append", metavar="EXPORT", help="a team's exported log; may be given again")
    verb("backup", verify_backup, "a backup", "its folder, or the manifest.json in it")
    verb("store", refuse_store, "a store: says what to run instead", "its folder")
    return made


def opened(name: str):
    return sys.stdin.buffer if name == "-" else Path(name).open("rb")


def shown(text: str) -> str:
    """Escape the non-printable characters in text from the file, as it is printed on a terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:500])


# The log -------------------------------------------------------------------------------------------------------------


def verify_log(options) -> int:
    """Print whether the exported log is unchanged, and how much of it that says."""
    checked = _checked(options)
    if checked.filters is not None:
        print(
            f"filtered ({_left_out(checked)}): {checked.count} of the events {checked.first} to {checked.last} of team "
            f"{shown(checked.team)} are unchanged; what was left out cannot be checked with this file"
        )
    elif checked.first == 1:
        events = f"events 1 to {checked.last} of team {shown(checked.team)}"
        unknown = "; whether later ones were cut off, only a checkpoint tells (--checkpoint)"
        print(f"complete and unchanged: {events}" if options.checkpoint else f"unchanged: {events}{unknown}")
    else:
        print(
            f"unchanged: events {checked.first} to {checked.last} of team {shown(checked.team)}; "
            f"events 1 to {checked.first - 1} are not in this file"
        )
    return 0


def note_checkpoint(options) -> int:
    """Print the checkpoint of an exported log; one cannot be made from a filtered export."""
    checked = _checked(options)
    if checked.filters is not None:
        print(f"This export is filtered ({_left_out(checked)}): a checkpoint takes the whole log.")
        return 1
    print(f"{checked.last}:{checked.head}")
    return 0


def _checked(options) -> log.Checked:
    checkpoint = log.read_checkpoint(options.checkpoint) if options.checkpoint else None
    with opened(options.file) as lines:
        return log.verify(lines, checkpoint)


def _left_out(checked: log.Checked) -> str:
    return shown(", ".join(f"{name}={value}" for name, value in checked.filters.items()))


# Signed documents ----------------------------------------------------------------------------------------------------


def verify_manifest(options) -> int:
    """Print whether a downloaded manifest is signed and unchanged."""
    from handrail_verify import signed  # here and below: the log needs no cryptography

    body = _signed_body(options, signed.PREFIX)
    of = f"snapshot {body['snapshot']}" if body.get("kind") != "resume" else f"the resume at {body.get('at')}"
    print(shown(f"signed and unchanged: {of} of {body.get('workspace')}, tree {body.get('tree')}"))
    return 0


def verify_receipt(options) -> int:
    """Print whether the downloaded receipt of a purge is signed and unchanged."""
    from handrail_verify import signed

    body = _signed_body(options, signed.RECEIPT_PREFIX)
    purge = f"the purge of a {body.get('about')} of team {body.get('team')} at {body.get('ended_at')}"
    print(shown(f"signed and unchanged: {purge}"))
    return 0


def _signed_body(options, prefix: bytes) -> dict:
    from handrail_verify import signed

    try:
        key = Path(options.key).read_text()
    except (OSError, ValueError):
        key = options.key
    with opened(options.file) as file:
        return signed.verify(file.read(), key.strip(), prefix)


# Passkeys ------------------------------------------------------------------------------------------------------------


def verify_passkeys(options) -> int:
    """Print which approvals are not proven by what their passkeys signed, and by the logs if there are some."""
    from handrail_verify import passkeys

    events = [event for name in options.log for event in _events_of(name)] if options.log else None
    with opened(options.file) as lines:
        records = passkeys.read(lines)
    wrong = list(passkeys.wrong_ones(records, events))
    for sentence in wrong:
        print(shown(sentence))
    if wrong:
        print(f"{len(wrong)} faults in {len(records)} approvals with passkeys.")
        return 1
    in_log = ", and each is in the log." if options.log else ". Whether the log has them, only --log tells."
    print(f"{len(records)} approvals with passkeys: each signature is right{in_log}")
    return 0


def _events_of(name: str) -> list[dict]:
    with Path(name).open("rb") as lines:
        log.verify(lines)
        lines.seek(0)
        return list(log.events_of(lines))


# Backups and stores --------------------------------------------------------------------------------------------------


def verify_backup(options) -> int:
    """Print whether a backup is complete and undamaged, and what takes more than Python to check."""
    path = Path(options.file)
    folder = path.parent if path.name == backup.MANIFEST else path
    manifest = backup.verify(folder)
    backup.check_database(folder)
    total = sum(measured["bytes"] for measured in manifest["files"].values())
    about = f"made at {manifest.get('made_at')}, {len(manifest['files'])} files, {total:,} bytes"
    print(shown(f"complete and undamaged: {about}"))
    print(f"to read its archive to the end: zstd -dc {backup.TAR} | tar -t > /dev/null")
    return 0


def refuse_store(options) -> int:
    """Say how a store is verified, which takes more than Python brings."""
    print(NO_STORE)
    return 2


if __name__ == "__main__":
    sys.exit(main())

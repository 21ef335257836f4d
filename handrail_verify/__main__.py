"""`python -m handrail_verify`: verify a log, a manifest, a receipt, approvals with passkeys or a backup, offline.

Ends with 0 if it verifies, 1 if not, 2 if it can't be told here.
"""

import argparse
import json
import sys
from pathlib import Path

from handrail_verify import agentack, backup, checkpoints, log

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
        package = "rfc3161-client" if "rfc3161" in str(error) else "cryptography, in its newest version"
        print(shown(f"This needs the package {package}: {error}"))
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
        command.add_argument(
            "--checkpoint", help="SEQ:HASH, or a file that holds checkpoints, signed or not, or an earlier export"
        )
        command.add_argument(
            "--key", default="", help="the public key of the checkpoints in base64, or a file that holds it"
        )
        command.add_argument(
            "--witness-ca", metavar="FILE", help="certificates (PEM) that the timestamps of the checkpoints come from"
        )
    command = verb("agentack", print_trace, "verify a whole log, and print it as a trace for AgentAck", "the export")
    command.add_argument("--checkpoint", help="as for log, without signatures")
    for name, run, form in (
        ("manifest", verify_manifest, "JSON"),
        ("receipt", verify_receipt, "JSON"),
        ("report", verify_report, "HTML or PDF"),
        ("attestation", verify_attestation, "a DSSE envelope"),
    ):
        command = verb(name, run, f"a downloaded {name}", f"the {name}, {form}; - for standard input")
        command.add_argument("--key", required=True, help="the public key in base64, or a file that holds it")
    command = verb(
        "passkeys", verify_passkeys, "approvals that passkeys confirmed", "from manage.py verify_passkeys --export"
    )
    command.add_argument(
        "--log", action="append", default=[], metavar="EXPORT", help="a team's whole exported log; may be given again"
    )
    command.add_argument(
        "--checkpoint", action="append", default=[], help="that of a --log, as for log; one for each, in their order"
    )
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
    with opened(options.file) as lines:
        kept = _kept(options)
        proven = _proven(log.verify(lines, kept), signed=bool(options.key), stamped=_last_stamp(kept))
    anybody = kept and kept[-1].team and not options.key and not options.witness_ca
    print(proven + ("; whether your installation signed the checkpoint, only its key tells (--key)" if anybody else ""))
    return 0


def note_checkpoint(options) -> int:
    """Print the checkpoint of an exported log; one cannot be made from a filtered export."""
    with opened(options.file) as lines:
        checked = log.verify(lines, _kept(options))
    if checked.filters is not None:
        print(f"This export is filtered ({_left_out(checked)}): a checkpoint takes the whole log.")
        return 1
    print(f"{checked.last}:{checked.head}")
    return 0


def print_trace(options) -> int:
    """Print a whole log that verifies as a trace, and on stderr how much of it is proven."""
    print(_proven(_checked_whole(options.file, options.checkpoint)), file=sys.stderr)
    with Path(options.file).open("rb") as lines:
        for line in agentack.trace(log.events_of(lines)):
            print(json.dumps(line))
    return 0


def _kept(options) -> list[checkpoints.Checkpoint] | None:
    """Return the checkpoints that the options name, with their signatures and timestamps verified. Raise BadEvent."""
    if not options.checkpoint:
        if options.witness_ca:
            raise checkpoints.BadEvent("Timestamps are in checkpoints: --witness-ca needs --checkpoint.")
        return None
    if _is_same(options.file, options.checkpoint):
        raise checkpoints.BadEvent("The checkpoint is the log itself: it proves nothing. Give one that was kept apart.")
    authorities = Path(options.witness_ca).read_bytes() if options.witness_ca else b""
    return checkpoints.read(options.checkpoint, _key(options.key), authorities)


def _is_same(file: str, other: str) -> bool:
    try:
        return Path(other).samefile(file)
    except (OSError, ValueError):
        return False


def _last_stamp(kept: list | None) -> checkpoints.Checkpoint | None:
    return next((one for one in reversed(kept or []) if one.stamped_at), None)


def _key(given: str) -> str:
    """Return the public key that --key is, or that is in the file that it names."""
    try:
        return Path(given).read_text().strip() if given else ""
    except (OSError, ValueError):
        return given.strip()


def _proven(checked: log.Checked, *, signed: bool = False, stamped: checkpoints.Checkpoint | None = None) -> str:
    """Return what a log that verifies proves: nothing without a checkpoint, and nothing of what came after it.

    `signed`: the checkpoints were verified with a key. `stamped`: the last one that an outside witness signed.
    """
    first, last, noted, team = checked.first, checked.last, checked.noted, shown(checked.team)
    if checked.filters is not None:
        return (
            f"filtered ({_left_out(checked)}): {checked.count} of the {_events(first, last)} of team {team} fit their "
            "own hashes; unproven: what was left out cannot be checked with this file"
        )
    missing = f"; {_events(1, first - 1)} {'is' if first == 2 else 'are'} not in this file" if first > 1 else ""
    if noted < first:
        unknown = "whether the log was rewritten, or its end cut off, only a checkpoint of its end tells (--checkpoint)"
        return f"unproven: {_events(first, last)} of team {team}, whose hashes fit{missing}; {unknown}"
    whole = "unchanged" if missing or noted < last else "complete and unchanged"
    later = f"; unproven: {_events(noted + 1, last)} after the checkpoint" if noted < last else ""
    by = ", by a checkpoint that the key signed" if signed else ""
    at = f"; an outside witness saw it up to event {stamped.seq} at {_utc(stamped.stamped_at)}" if stamped else ""
    return f"{whole}{by}: {_events(first, noted)} of team {team}{missing}{later}{at}"


def _utc(at) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _events(first: int, last: int) -> str:
    return f"events {first} to {last}" if first < last else f"event {last}"


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


def verify_report(options) -> int:
    """Print whether the downloaded report of oversight is signed and unchanged."""
    from handrail_verify import reports

    with opened(options.file) as file:
        sha256 = reports.verify(file.read(), _key(options.key))
    print(f"signed and unchanged: all of the report before its last line, SHA-256 {sha256}")
    return 0


def verify_attestation(options) -> int:
    """Print what the attestation of a decision states, if it is signed and unchanged."""
    from handrail_verify import attestation

    with opened(options.file) as file:
        statement = attestation.verify(file.read(), _key(options.key))
    [subject], found = statement["subject"], statement["predicate"]
    by = ", ".join(each["label"] for each in found["people"]) or found["decidedBy"]["label"]
    words = f"{found['verdict']} by {by} at {found['decidedAt']}"
    print(shown(f"signed and unchanged: {subject['name']}: {words}, call {subject['digest']['sha256']}"))
    return 0


def _signed_body(options, prefix: bytes) -> dict:
    from handrail_verify import signed

    with opened(options.file) as file:
        return signed.verify(file.read(), _key(options.key), prefix)


# Passkeys ------------------------------------------------------------------------------------------------------------


def verify_passkeys(options) -> int:
    """Print which approvals are not proven by what their passkeys signed, and by the logs if there are some."""
    from handrail_verify import passkeys

    if len(options.checkpoint) not in (0, len(options.log)):
        raise ValueError("If one --log has a --checkpoint, each needs one, in the same order.")
    noted = options.checkpoint or [None] * len(options.log)
    logs = [_whole(name, checkpoint) for name, checkpoint in zip(options.log, noted, strict=True)]
    events = [event for _, found in logs for event in found] if logs else None
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
    for name, (checked, _) in zip(options.log, logs, strict=True):
        print(f"{shown(name)}: {_proven(checked)}")
    return 0


def _whole(name: str, checkpoint: str | None) -> tuple[log.Checked, list[dict]]:
    """Return (what was checked of a log, its events). Raise ValueError for a part of one, which can lack approvals."""
    checked = _checked_whole(name, checkpoint)
    with Path(name).open("rb") as lines:
        return checked, list(log.events_of(lines))


def _checked_whole(name: str, checkpoint: str | None) -> log.Checked:
    with Path(name).open("rb") as lines:
        checked = log.verify(lines, checkpoints.read(checkpoint) if checkpoint else None)
    if checked.filters is not None:
        raise ValueError(f"{name} is filtered ({_left_out(checked)}): only the whole log tells which approvals it has.")
    if checked.first > 1:
        raise ValueError(f"{name} begins at event {checked.first}: only the whole log tells which approvals it has.")
    return checked


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

"""`python -m workspaces.manifests verify FILE --key KEY`: verify a downloaded manifest offline, without a database."""

import argparse
import sys
from pathlib import Path

from workspaces.manifests.signature import BadManifest, verify


def main(arguments=None) -> int:
    """Run the command line; return 0 if the manifest verifies, else print one line with the reason and return 1."""
    parser = argparse.ArgumentParser(prog="python -m workspaces.manifests", description=__doc__)
    command = parser.add_subparsers(dest="verb", required=True).add_parser("verify", help="check a downloaded manifest")
    command.add_argument("file", help="the manifest, JSON; - for standard input")
    command.add_argument("--key", required=True, help="the public key in base64, or a file that holds it")
    options = parser.parse_args(arguments)
    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        body = verify(text, _key(options.key))
    except BadManifest as error:
        print(error)
        return 1
    except OSError as error:
        print(f"{options.file}: {error.strerror}")
        return 1
    of = f"snapshot {body['snapshot']}" if body.get("kind") != "resume" else f"the resume at {body.get('at')}"
    print(_printable(f"signed and unchanged: {of} of {body.get('workspace')}, tree {body.get('tree')}"))
    return 0


def _key(text: str) -> str:
    try:
        return Path(text).read_text().strip()
    except (OSError, ValueError):
        return text.strip()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:500])


if __name__ == "__main__":
    sys.exit(main())

"""`python -m approvals.audit verify FILE`: verify an exported event log offline, as `python -m handrail_verify log`."""

import sys

from handrail_verify.__main__ import main as run

VERBS = {"verify": "log"}


def main(arguments=None) -> int:
    """Run the command line; return 0 if the log verifies, else print one line with the reason and return 1."""
    verb, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    return run([VERBS.get(verb, verb), *rest])


if __name__ == "__main__":
    sys.exit(main())

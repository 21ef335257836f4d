"""The `handrail` command line. Each subject is a module that adds its commands to the parser."""

import argparse
import os
import sys

from handrail_client.command_line import approvals, files, mcp, sessions, workspaces
from handrail_client.connection import Connection
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError, NotAllowed

NOT_ALLOWED = 126  # a shell's status for a command that may not run
FAILED = 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "handrail",
        description="Ask the people at a Handrail desk, and use its workspaces. The desk is named by HANDRAIL_URL and "
        "HANDRAIL_TOKEN, or by HANDRAIL_CONNECTION, a file with both.",
    )
    made.add_argument("--connection", metavar="FILE", help='a file with {"url": …, "token": …}, readable by you alone')
    made.add_argument("--json", action="store_true", help="print the JSON that the API returns")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for subject in (approvals, workspaces, files, sessions, mcp):
        subject.add_to(commands)
    return made


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit status: 126 when a call was not allowed, 1 for other errors."""
    asked = parser().parse_args(argv)
    try:
        connection = Connection.from_file(asked.connection) if asked.connection else Connection.from_environment()
        return asked.run(Handrail(connection), asked) or 0
    except NotAllowed as no:
        print(f"handrail: {no}", file=sys.stderr)
        return NOT_ALLOWED
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (HandrailError, OSError) as error:
        print(f"handrail: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130

#!/usr/bin/python3 -IS
"""The gh, glab and git of a call in a folder's box that reads at the code host: ask for the read at the box's door.

Standard library only, Python 3.9 and later. The read runs outside the box, with the credentials that this box does not
have; its output and exit status are passed on. Whatever git does besides fetching is done by the real git.
"""

import json
import os
import socket
import struct
import sys

OWN = os.path.dirname(os.path.realpath(__file__))
DOOR = os.path.join(os.path.dirname(OWN), "door")
TICKET = "HANDRAIL_READS"
REDIRECTING = ("GH_HOST", "GH_REPO", "GITLAB_HOST", "GITLAB_REPO")
CANNOT_RUN = 126


def main():
    name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    ticket = os.environ.pop(TICKET, "")
    if not ticket or (name == "git" and not fetches(arguments)):
        run_in_the_box([name, *arguments])
    for variable in REDIRECTING:
        if os.environ.get(variable):
            return refuse(f"{variable} is set. Name the repository with -R")
    try:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        door.connect(DOOR)
        door.sendall(json.dumps({"ticket": ticket, "argv": [name, *arguments]}).encode() + b"\n")
        return passed_on(door.makefile("rb"))
    except BrokenPipeError:
        return 128 + 13  # nobody reads our output any more
    except (OSError, EOFError) as error:
        return refuse(f"Handrail does not answer ({error})")


def fetches(arguments):
    """Return whether these are arguments of git for a fetch or a list of a remote's branches."""
    rest = arguments[2:] if arguments[:1] == ["-C"] else arguments
    return rest[:1] in (["fetch"], ["ls-remote"])


def passed_on(answer):
    """Write the frames of an answer; return the exit status."""
    while True:
        head = answer.read(5)
        if len(head) < 5:
            raise EOFError("it closed the connection")
        (length,) = struct.unpack(">I", head[1:])
        data = answer.read(length)
        if head[:1] == b"q":
            return int(data)
        if head[:1] == b"x":
            run_in_the_box(json.loads(data))
        write_all(1 if head[:1] == b"o" else 2, data)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def run_in_the_box(argv):
    """Become the real program of this name; does not return."""
    folders = [path for path in os.environ.get("PATH", os.defpath).split(":") if os.path.realpath(path) != OWN]
    os.environ["PATH"] = ":".join(folders)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def refuse(message):
    print(f"Handrail did not run this read: {message}.", file=sys.stderr)
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main())

"""What git starts inside of a workspace to sign: sign_program.py ADDRESS WORKSPACE and ssh-keygen's own arguments.

Handrail has the team's key and makes the signature; the key never comes here. All but `-Y sign` is left to ssh-keygen.
Standard library only, Python 3.9, and of that what a container's Python has (drivers/docker/bundle.py).
"""

import _socket as socket
import binascii
import json
import os
import sys

SECONDS = 30
PARENTS = 8  # of them one may have the token that a shell was not given
UNSIGNED = "To commit without a signature: git -c commit.gpgSign=false commit"


def main(arguments):
    address, workspace, *given = arguments
    if given[:2] != ["-Y", "sign"]:
        os.execvp("ssh-keygen", ["ssh-keygen", *given])
    try:
        path = given[-1]
        with open(path, "rb") as file:
            content = file.read()
        answer = ask(address, workspace, {"namespace": name_in(given), "object": encoded(content)})
        with open(f"{path}.sig", "w") as file:
            file.write(answer["signature"])
    except (OSError, ValueError, LookupError) as error:
        sys.exit(f"Handrail did not sign it: {error}\n{UNSIGNED}")


def name_in(arguments):
    return arguments[arguments.index("-n") + 1]


def encoded(content):
    return binascii.b2a_base64(content, newline=False).decode()


def token_of_run():
    """Return the token of the Run's programs: this one's, or that of one that started it."""
    process = "self"
    for _ in range(PARENTS):
        with open(f"/proc/{process}/environ", "rb") as file:
            variables = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
        if b"HANDRAIL_TOKEN" in variables:
            return variables[b"HANDRAIL_TOKEN"].decode("ascii")
        with open(f"/proc/{process}/stat", "rb") as file:
            process = int(file.read().rpartition(b")")[2].split()[1])
        if process <= 1:
            break
    raise LookupError("no program here has the token of the run, HANDRAIL_TOKEN")


def ask(address, workspace, asked):
    """Return the answer; ValueError with what Handrail says where it refuses."""
    host = address.partition("://")[2]
    body = json.dumps(asked).encode()
    head = (
        f"POST /api/v1/workspaces/{workspace}/signatures HTTP/1.0\r\nHost: {host}\r\n"
        f"Authorization: Bearer {token_of_run()}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    server = connected(host)
    try:
        server.sendall(head.encode("ascii") + body)
        answer = b"".join(iter(lambda: server.recv(1 << 16), b""))  # HTTP/1.0: until the server closes
    finally:
        server.close()
    first, _, rest = answer.partition(b"\r\n")
    told = json.loads(rest.partition(b"\r\n\r\n")[2] or b"{}")
    if first.split(b" ")[1:2] != [b"200"]:
        raise ValueError(told.get("detail") or first.decode("latin-1"))
    return told


def connected(host):
    error = OSError(f"there is no address of {host}")
    for family, kind, protocol, _name, address in socket.getaddrinfo(host.encode(), 80, 0, socket.SOCK_STREAM):
        server = socket.socket(family, kind, protocol)
        server.settimeout(SECONDS)
        try:
            server.connect(address)
        except OSError as refused:
            server.close()
            error = refused
        else:
            return server
    raise error


if __name__ == "__main__":
    main(sys.argv[1:])

"""Opens connections to a container's keeper for its bridge, which may not use the engine's socket.

    python3 -I -S execs.py BRIDGE_FD LIFE_FD ENGINE_SOCKET CONTAINER COMMAND…

Standard library only. For each byte that it reads it has the engine start COMMAND in the container, as root without a
capability, and answers with `y` and the connection to it, with `n` if the engine does not answer now, or with `g` if
the container runs no more. It ends with the bridge, or with the container, since the engine does not always close the
connections to one that was killed; the bridge sees that by LIFE_FD, which this program alone holds open.
"""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time

ENGINE_S = 30.0
PAUSE_S = 1.0  # between attempts to ask an engine that does not answer
SWITCHING, CREATED, NOT_FOUND, CONFLICT = 101, 201, 404, 409


class Gone(Exception):
    """The container is gone, or runs no more."""


def main():
    bridge = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    engine, container, command = sys.argv[3], sys.argv[4], sys.argv[5:]
    threading.Thread(target=end_with, args=(engine, container), daemon=True).start()
    while bridge.recv(1):
        try:
            with start(engine, container, command) as connection:
                socket.send_fds(bridge, [b"y"], [connection.fileno()])
        except Gone:
            bridge.sendall(b"g")
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            print(f"no connection to the container: {error!r}", file=sys.stderr, flush=True)
            bridge.sendall(b"n")


def end_with(engine, container):
    """End this program when the container has ended."""
    while True:
        try:
            with connect(engine) as sock:
                sock.settimeout(None)
                answer = request(sock, f"/containers/{container}/wait", None, {})
                answer.read()
                if answer.status in (http.client.OK, NOT_FOUND):
                    os._exit(0)
        except (OSError, http.client.HTTPException):
            pass  # the engine is away
        time.sleep(PAUSE_S)


def start(engine, container, command):
    """Return the connection to a program that the engine has started in the container."""
    asked = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Cmd": command, "User": "0:0"}
    sock = connect(engine)
    with sock:
        answer = request(sock, f"/containers/{container}/exec", asked, {})
        said = answer.read()
    if answer.status in (NOT_FOUND, CONFLICT):
        if not is_paused(engine, container):
            raise Gone
        raise ConnectionRefusedError("it is paused")
    if answer.status != CREATED:
        raise ConnectionRefusedError(f"{answer.status} {said[:200]!r}")
    sock = connect(engine)
    try:
        path = f"/exec/{json.loads(said)['Id']}/start"
        answer = request(sock, path, {"Detach": False, "Tty": False}, {"Connection": "Upgrade", "Upgrade": "tcp"})
        if answer.status != SWITCHING:
            raise ConnectionRefusedError(f"{answer.status}")
        sock.settimeout(None)
        return sock
    except BaseException:
        sock.close()
        raise


def is_paused(engine, container):
    with connect(engine) as sock:
        answer = request(sock, f"/containers/{container}/json", None, {}, method="GET")
        return answer.status == http.client.OK and json.loads(answer.read())["State"].get("Paused", False)


def connect(engine):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.settimeout(ENGINE_S)
    try:
        sock.connect(engine)
    except BaseException:
        sock.close()
        raise
    return sock


def request(sock, path, body, headers, method="POST"):
    """Return the engine's answer on this connection."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = {"Host": "engine", "Content-Type": "application/json", "Content-Length": len(content), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    sock.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
    answer = http.client.HTTPResponse(sock, method=method)
    answer.begin()
    return answer


if __name__ == "__main__":
    main()

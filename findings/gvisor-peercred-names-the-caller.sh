#!/usr/bin/env bash
# gVisor (runsc 0.0~20221219, Debian 12): SO_PEERCRED of a unix socket names the process that asks, not its peer.
#
# Behaviour: a program of user 1000 listens to a unix socket, and a process of root in the same sandbox connects. On Linux
# SO_PEERCRED of the accepted connection has the pid and the user of root's process. gVisor answers with the pid and the
# user of the listener itself, whoever connects. A service that tells its clients by their user takes all for its own.
#
# Output seen: "peer: uid 1000, own pid". Exits with 1 when that changes. Needs root, runsc and python3.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/try.py" <<'PY'
import os
import socket
import struct

listener = socket.socket(socket.AF_UNIX)
listener.bind("\0try")
listener.listen()
if os.fork() == 0:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0try")
        client.recv(1)
    os._exit(0)
os.setuid(1000)
connection, _ = listener.accept()
pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
connection.sendall(b".")
print(f"peer: uid {uid}, {'own pid' if pid == os.getpid() else 'the pid of the peer'}")
PY
chmod 755 "$work"
seen=$(runsc --rootless=false --root="$work/state" --ignore-cgroups --network=none do python3 "$work/try.py" 2>&1 | tail -1)
echo "$seen"
[ "$seen" = "peer: uid 1000, own pid" ]

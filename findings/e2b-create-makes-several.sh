#!/usr/bin/env bash
# E2B's SDK for Python (PyPI: e2b 2.63.0): one Sandbox.create() can make several sandboxes, of which it returns the last.
#
# Behaviour: the API makes the sandbox and a gateway before it answers 504. The SDK then sends the same POST again, by
# default up to three times, although a 504 does not say that nothing was done, and without an Idempotency-Key, so the API
# cannot know that it is the same wish. create() returns as if it had asked once: no warning, no error, no name of the
# others, which live (and cost) until their own time-out. One would expect that a key is made for each create(), since the
# SDK knows the header: it sends one only if the caller passes idempotency_key, and then repeats with the same key. So:
# pass a key of your own to each create(), or retries=0; a server for this SDK has to expect the same POST again.
#
# The API is a server of a few lines that makes a sandbox for each POST without a key, and one for each key.
# Output seen: "by default: 3 made, 1 returned, keys: none", "retries=0: 1 made, 0 returned, keys: none" and
# "idempotency_key: 1 made, 1 returned, keys: the same". Exits with 1 when that changes. Needs python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$work/lib" e2b==2.63.0
env -i PATH="$PATH" HOME="$work" PYTHONPATH="$work/lib" python3 - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from e2b import Sandbox

made, keys = [], []  # ids of sandboxes; the key of each POST, None without one
by_key = {}
lost = [0]  # how many answers still get lost


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        keys.append(key)
        if key is None or key not in by_key:
            made.append(f"sandbox{len(made) + 1}")
            by_key[key] = made[-1]
        box = {"sandboxID": by_key[key], "templateID": "base", "clientID": "one", "envdVersion": "0.5.7"}
        status, lost[0] = (504, lost[0] - 1) if lost[0] else (201, 0)
        body = json.dumps(box if status == 201 else {"code": 504, "message": "Gateway Timeout"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()


def create(**more):
    made.clear(), keys.clear(), by_key.clear()
    lost[0] = 2
    try:
        Sandbox.create(api_key="e2b_" + 40 * "0", api_url=f"http://127.0.0.1:{server.server_port}", **more)
        returned = 1
    except Exception:
        returned = 0
    sent = "none" if set(keys) == {None} else "the same" if len(set(keys)) == 1 else "different"
    return f"{len(made)} made, {returned} returned, keys: {sent}"


seen = [f"by default: {create()}", f"retries=0: {create(retries=0)}"]
seen.append(f"idempotency_key: {create(idempotency_key='job-1')}")
print("\n".join(seen))
sys.exit(seen != [
    "by default: 3 made, 1 returned, keys: none",
    "retries=0: 1 made, 0 returned, keys: none",
    "idempotency_key: 1 made, 1 returned, keys: the same",
])
PY

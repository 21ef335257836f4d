#!/usr/bin/env bash
# obstore 0.12.1 (PyPI): a conditional put that succeeded can be reported as refused, since obstore repeats it by itself.
#
# Behaviour: the bucket stores the object and the answer gets lost on its way (a gateway answers 502). obstore repeats the
# put with the same precondition, which its own first try has just made untrue, and raises AlreadyExistsError for
# mode="create" and PreconditionError for an ETag. Both read as "somebody else was first", while the object holds what this
# writer wrote. One would expect that a request which must not be done twice is not repeated, or that its error stays the
# 502. Who takes a lock, a lease or a head in a bucket this way loses to itself, and waits for a holder that is not there.
# So: either retry_config={"max_retries": 0, …} and an end that is unknown at a 5xx, or something of the writer's own in
# each object, and a read after every refusal.
#
# The bucket is a server of a few lines that keeps preconditions as S3 does and answers every first put with 502.
# Output seen: "create: AlreadyExistsError, asked 2 times, holds mine" and "replace: PreconditionError, asked 2 times,
# holds mine", without retries "create: GenericError, asked 1 time, holds mine". Exits with 1 when that changes. Needs
# python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$work/lib" obstore==0.12.1
PYTHONPATH="$work/lib" python3 - <<'PY'
import hashlib
import sys
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import obstore
from obstore.store import S3Store

kept, puts, lose = {}, [], [0]  # {path: (bytes, tag)}, the paths of all puts, how many answers still get lost


class Bucket(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        puts.append(self.path)
        old, absent, tag = kept.get(self.path), self.headers["If-None-Match"], self.headers["If-Match"]
        if (absent == "*" and old) or (tag and (old is None or old[1] != tag)):
            return self.answer(412)
        kept[self.path] = body, f'"{hashlib.md5(body).hexdigest()}"'
        if lose[0]:
            lose[0] -= 1
            return self.answer(502)
        self.answer(200, tag=kept[self.path][1])

    def do_GET(self):
        self.answer(200, *kept[self.path])

    def answer(self, status, body=b"", tag=""):
        self.send_response(status)
        for name, value in {"ETag": tag, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
threading.Thread(target=server.serve_forever, daemon=True).start()


def store(**more):
    return S3Store("bucket", endpoint=f"http://127.0.0.1:{server.server_port}", region="us-east-1",
                   access_key_id="key", secret_access_key="secret", client_options={"allow_http": True}, **more)


def put(to, name, mine, mode):
    puts.clear()
    lose[0] = 1
    try:
        obstore.put(to, name, mine, mode=mode)
        end = "stored"
    except obstore.exceptions.BaseError as error:
        end = type(error).__name__
    lose[0] = 0
    holds = "mine" if bytes(obstore.get(to, name).bytes()) == mine else "something else"
    return f"{end}, asked {len(puts)} time{'s' * (len(puts) > 1)}, holds {holds}"


usual, once = store(), store(retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=20)})
seen = [f"create: {put(usual, 'lock', b'one', 'create')}"]
seen.append(f"replace: {put(usual, 'lock', b'two', {'e_tag': obstore.get(usual, 'lock').meta['e_tag']})}")
seen.append(f"create without retries: {put(once, 'other', b'three', 'create')}")
print("\n".join(seen))
sys.exit(seen != [
    "create: AlreadyExistsError, asked 2 times, holds mine",
    "replace: PreconditionError, asked 2 times, holds mine",
    "create without retries: GenericError, asked 1 time, holds mine",
])
PY

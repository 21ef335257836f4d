"""A time-stamping authority (RFC 3161) on this machine: `openssl ts` behind a small HTTP server."""

import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SETTINGS = """
[tsa]
default_tsa = main
[main]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
certs = {folder}/ca.pem
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ordering = no
tsa_name = yes
ess_cert_id_chain = no
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[stamping]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


class Authority:
    """An authority with certificates of its own in a folder; `answers` False makes it answer 503."""

    def __init__(self, folder: Path):
        self.folder, self.answers, self.asked = folder, True, 0
        folder.mkdir()
        (folder / "serial").write_text("01\n")
        self.settings = folder / "openssl.cnf"
        self.settings.write_text(SETTINGS.format(folder=folder))
        new = ["req", "-config", self.settings, "-newkey", "rsa:2048", "-nodes"]
        self._openssl(*new, "-x509", "-days", "30", "-subj", "/CN=Test Authority", "-extensions", "authority",
                      "-keyout", folder / "ca.key", "-out", folder / "ca.pem")  # fmt: skip
        self._openssl(*new, "-subj", "/CN=Test Witness", "-keyout", folder / "tsa.key", "-out", folder / "tsa.csr")
        self._openssl("x509", "-req", "-in", folder / "tsa.csr", "-days", "30", "-CA", folder / "ca.pem",
                      "-CAkey", folder / "ca.key", "-CAcreateserial", "-extfile", self.settings,
                      "-extensions", "stamping", "-out", folder / "tsa.pem")  # fmt: skip

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def reply(self, query: bytes) -> bytes:
        (self.folder / "query.tsq").write_bytes(query)
        return self._openssl("ts", "-reply", "-config", self.settings, "-queryfile", self.folder / "query.tsq")

    def _openssl(self, *arguments) -> bytes:
        return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True).stdout


@contextmanager
def serving(authority: Authority):
    """Serve an authority on a port of this machine; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            query = self.rfile.read(int(self.headers["Content-Length"]))
            authority.asked += 1
            answer = authority.reply(query) if authority.answers else b""
            self.send_response(200 if authority.answers else 503)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/tsr"
    finally:
        server.shutdown()
        server.server_close()

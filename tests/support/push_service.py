"""A push service on loopback: takes Web Push as a browser's vendor does, and decrypts with keys that the test made."""

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import http_ece
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature


def encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Message:
    """One push as it arrived: the subscription's name, the headers, the payload in clear."""

    name: str
    headers: dict
    payload: dict


class PushService:
    """`subscription("phone")` is what a browser would send to the desk; `messages` is what arrived since."""

    def __init__(self):
        self.keys, self.messages, self.answers, self.encrypted = {}, [], {}, []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def subscription(self, name: str) -> dict:
        self.keys[name] = (ec.generate_private_key(ec.SECP256R1()), os.urandom(16))
        key, secret = self.keys[name]
        point = key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        return {"endpoint": f"{self.url}/{name}", "keys": {"p256dh": encoded(point), "auth": encoded(secret)}}

    def answer(self, name: str, *statuses: int):
        """Answer the next pushes to a subscription with these, then with 201 again."""
        self.answers[name] = list(statuses)

    def take(self) -> list[Message]:
        taken, self.messages = self.messages, []
        return taken

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def _handler(service):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                name = self.path[1:]
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = service.answers[name].pop(0) if service.answers.get(name) else 201
                if status == 201:
                    key, secret = service.keys[name]
                    clear = http_ece.decrypt(body, private_key=key, auth_secret=secret, version="aes128gcm")
                    service.encrypted.append(body)
                    headers = {word.lower(): text for word, text in self.headers.items()}
                    service.messages.append(Message(name, headers, json.loads(clear)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        return Handler


def verify_vapid(header: str, public_key: str) -> dict:
    """Return the claims of an Authorization header `vapid t=…,k=…` that this key signed; InvalidSignature."""
    scheme, _, rest = header.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert (scheme, fields["k"]) == ("vapid", public_key)
    signed, _, signature = fields["t"].rpartition(".")
    raw = decoded(signature)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(public_key))
    key.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
    return json.loads(decoded(signed.split(".")[1]))

"""Host names below a domain, without a name server of this machine's: a small one, for programs that are shown it.

A certificate for all of them is signed by an authority that the test makes.
"""

import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from workspaces.drivers.sandbox.driver import find_bwrap

ADDRESSES = [f"127.53.53.{number}" for number in range(1, 100)]  # one for each test that runs at a time
PORT = 53  # the C library asks at no other
A = b"\0\1"


class Names:
    """A folder with ca.pem, name.pem and name.key, and how a program is started so that it finds these names."""

    def __init__(self, folder: Path, domain: str, server: str):
        self.folder, self.domain = folder, domain
        folder.mkdir()
        (folder / "resolv.conf").write_text(f"nameserver {server}\n")
        (folder / "nsswitch.conf").write_text("hosts: files dns\n")
        _certificate(folder, domain)

    @property
    def environment(self) -> dict:
        """The authority, for programs of OpenSSL, of rustls and of Node."""
        authority = str(self.folder / "ca.pem")
        return {"SSL_CERT_FILE": authority, "NODE_EXTRA_CA_CERTS": authority}

    def shown_to(self, command: list[str]) -> list[str]:
        """Return the command as one that asks this name server."""
        own = [("--ro-bind", str(self.folder / name), f"/etc/{name}") for name in ("resolv.conf", "nsswitch.conf")]
        return [str(find_bwrap().path), "--dev-bind", "/", "/", *(word for three in own for word in three), *command]


@contextmanager
def name_server(folder: Path, domain: str, require):
    """Answer for each name below the domain with 127.0.0.1, and for no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        server = next(filter(partial(_is_bound, asked), ADDRESSES), None)
        if server is None:
            require("names", f"port {PORT} can't be listened on")
        threading.Thread(target=_answer_forever, args=(asked, domain), daemon=True).start()
        yield Names(folder, domain, server)


def _is_bound(asked: socket.socket, address: str) -> bool:
    try:
        asked.bind((address, PORT))
    except OSError:
        return False
    return True


def _answer_forever(asked: socket.socket, domain: str):
    while True:
        try:
            query, sender = asked.recvfrom(4096)
            asked.sendto(_answer(query, domain), sender)
        except OSError:
            return  # closed


def _answer(query: bytes, domain: str) -> bytes:
    end, labels = 12, []
    while length := query[end]:
        labels.append(query[end + 1 : end + 1 + length].decode().lower())
        end += 1 + length
    question, is_ours = query[12 : end + 5], ".".join(labels).endswith(f".{domain}")
    found = b"\xc0\x0c" + A + b"\0\1" + (60).to_bytes(4, "big") + b"\0\4" + socket.inet_aton("127.0.0.1")
    found = found if is_ours and question[-4:-2] == A else b""
    flags = b"\x81\x80" if is_ours else b"\x81\x83"  # no error, or no such name
    return query[:2] + flags + b"\0\1" + (b"\0\1" if found else b"\0\0") + b"\0\0\0\0" + question + found


def _certificate(folder: Path, domain: str):
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
    own = _begun(issuer, issuer, authority).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"*.{domain}")])
    names = [x509.DNSName(f"*.{domain}"), x509.DNSName("localhost")]
    made = _begun(subject, issuer, key).add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(own.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / "name.pem").write_bytes(made.sign(authority, hashes.SHA256()).public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "name.key").write_bytes(key.private_bytes(pem, *form))


def _begun(subject: x509.Name, issuer: x509.Name, key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))

"""The certificate authority of a workspace, with which the proxy opens TLS to the hosts that a credential names.

Its key is in a file of this host, and never in the workspace; the workspace trusts its certificate.
"""

import datetime
import os
import ssl
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dashboard.files.atomic_write import create_file

AUTHORITY_LASTS = datetime.timedelta(days=3650)
LASTS = datetime.timedelta(days=7)
RENEWED = datetime.timedelta(days=1)  # before its end
AHEAD = datetime.timedelta(days=1)  # by which the clock inside may differ
PKCS8, PEM = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM


class Authority:
    """Issues a certificate for each host that is opened; contexts are kept while they are good."""

    def __init__(self, file: Path):
        """Raise OSError or ValueError for a file that is not there, or holds no authority."""
        self.file, content = file, file.read_bytes()
        self._key = serialization.load_pem_private_key(content, password=None)
        self._certificate = x509.load_pem_x509_certificate(content)
        self._contexts: dict[str, tuple[datetime.datetime, ssl.SSLContext]] = {}
        self._lock = threading.Lock()

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate as PEM."""
        return self._certificate.public_bytes(PEM)

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return a server's context with a certificate for this host."""
        now = datetime.datetime.now(datetime.UTC)
        with self._lock:
            until, context = self._contexts.get(host, (now, None))
            if context is None or until - RENEWED < now:
                until, context = now + LASTS, self._made(host, now)
                self._contexts[host] = until, context
            return context

    def _made(self, host: str, now: datetime.datetime) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            x509.CertificateBuilder()
            .subject_name(_named(host[:64]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - AHEAD)
            .not_valid_after(now + LASTS)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_identifier_of(self._certificate), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        _load(context, made.public_bytes(PEM) + _pem(key), self.file.parent)
        return context


def make(file: Path) -> bool:
    """Make an authority in a file that only Handrail's own user reads; False if it is there already."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("Handrail, for one workspace")
    now = datetime.datetime.now(datetime.UTC)
    usage = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
    usage |= {"digital_signature": True, "key_cert_sign": True, "crl_sign": True}
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - AHEAD, now + AUTHORITY_LASTS
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage, encipher_only=False, decipher_only=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    file.parent.mkdir(mode=0o700, exist_ok=True)
    return create_file(file, _pem(key) + made.public_bytes(PEM))


def _identifier_of(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    found = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _load(context: ssl.SSLContext, content: bytes, folder: Path):
    """Have the context show this certificate. The key is in a file for that moment only."""
    path = folder / f".{os.getpid()}-{threading.get_ident()}.pem"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as out:
            out.write(content)
        context.load_cert_chain(path)
    finally:
        path.unlink(missing_ok=True)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(key) -> bytes:
    return key.private_bytes(PEM, PKCS8, serialization.NoEncryption())

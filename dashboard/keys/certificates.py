"""Certificates with which the hosts of one installation know each other: an authority's, and those that it issues.

A certificate names the installation and a member of it in one URI: handrail://INSTALLATION/MEMBER. Its common name is
the host's name, for people to read; nothing is decided by it.
"""

import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SCHEME = "handrail"
AUTHORITY_LASTS = timedelta(days=20 * 365)
LASTS = timedelta(days=1)
AHEAD = timedelta(hours=1)  # by which the clocks of two hosts may differ
LONGEST_NAME = 64  # of a common name
# OpenSSL then leaves the dates of certificates to us, so that both ends are told in words which one has expired.
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Subject:
    """Whom a verified certificate names."""

    installation: str
    member: str
    host: str
    expires_at: datetime


def make_authority(installation: str, at: datetime) -> Pair:
    """Make the authority of an installation: a self-signed certificate and its key."""
    key, name = _new_key(), _named(f"Handrail {installation}")
    made = _builder(name, name, key.public_key(), at, AUTHORITY_LASTS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Pair(_pem(made.sign(key, hashes.SHA256())), _key_pem(key))


def issue(authority: Pair, *, installation: str, member: str, host: str, at: datetime) -> Pair:
    """Issue a certificate of LASTS for a member, good for both ends of a connection."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signing = serialization.load_pem_private_key(authority.key, password=None)
    key = _new_key()
    names = [x509.UniformResourceIdentifier(f"{SCHEME}://{installation}/{member}")]
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    made = _builder(_named(host), issuer.subject, key.public_key(), at, LASTS)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return Pair(_pem(made.sign(signing, hashes.SHA256())), _key_pem(key))


def subject_of(verified: dict) -> Subject | None:
    """Return whom a verified certificate names, as `getpeercert` returns it; None if it is none of ours."""
    uris = [value for kind, value in verified.get("subjectAltName", ()) if kind == "URI"]
    found = next((parts for parts in map(urlsplit, uris) if parts.scheme == SCHEME), None)
    if found is None:
        return None
    named = {name: value for part in verified.get("subject", ()) for name, value in part}
    expires_at = datetime.fromtimestamp(ssl.cert_time_to_seconds(verified["notAfter"])).astimezone()
    return Subject(found.netloc, found.path.strip("/"), named.get("commonName", ""), expires_at)


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate given as PEM, in hex."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex()


def context(authority: bytes, *, server: bool) -> ssl.SSLContext:
    """Return a context of TLS 1.3 in which both ends show a certificate of this authority (PEM).

    Names and dates are not compared here: `subject_of` says whom the other end is and until when.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= NO_CHECK_TIME
    made.load_verify_locations(cadata=authority.decode())
    if server:
        made.num_tickets = 0  # connections are kept open; a ticket would make a quiet one look as if it had ended
    return made


def show(made: ssl.SSLContext, pair: Pair, folder: Path):
    """Have a context show this certificate from now on. The key is in a file of `folder` for that moment only."""
    fd, path = tempfile.mkstemp(dir=folder, prefix=".certificate-")  # mode 0600
    try:
        with open(fd, "wb") as file:
            file.write(pair.certificate + pair.key)
        made.load_cert_chain(path)
    finally:
        os.unlink(path)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:LONGEST_NAME])])


def _builder(subject, issuer, public_key, at: datetime, lasts: timedelta) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(at - AHEAD).not_valid_after(at + lasts)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form)

"""Files of certificates for programs that take one file only: this machine's authorities, and more after them."""

import ssl
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

# Where systems keep all authorities in one file: Debian, Fedora, Alpine, SUSE.
SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)


def of_this_machine() -> bytes:
    """Return the certificates of this machine's authorities as PEM."""
    named = ssl.get_default_verify_paths().cafile
    found = next((path for path in (named, *SYSTEM) if path and Path(path).is_file()), None)
    if found is None:
        from requests.certs import where  # here: few machines have no file of their own

        found = where()
    return Path(found).read_bytes()


def with_more(*more: bytes) -> bytes:
    """Return this machine's authorities and `more` as one PEM text."""
    return b"\n".join(part.strip() for part in (of_this_machine(), *more)) + b"\n"


BEGIN, END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


def for_java(pem: bytes) -> bytes:
    """Return the certificates of a PEM text as the store that Java reads; it wants no password."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # systems trust some whose numbers are not as they should be
        for number, text in enumerate(pem.split(BEGIN)[1:]):
            try:
                certificate = x509.load_pem_x509_certificate(BEGIN + text.partition(END)[0] + END)
                found.append(pkcs12.PKCS12Certificate(certificate, str(number).encode()))
            except ValueError:
                continue
    return pkcs12.serialize_java_truststore(found, NoEncryption())

"""Files of certificates for programs that take one file only: this machine's authorities, and more after them."""

import ssl
from pathlib import Path

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

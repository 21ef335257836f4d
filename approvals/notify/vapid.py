"""The key pair with which push services know this installation (VAPID, RFC 8292): keys/vapid in HANDRAIL_HOME."""

from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings

from dashboard.files.atomic_write import create_file
from dashboard.keys.key_files import make_private


def private_key() -> ec.EllipticCurvePrivateKey:
    """Return the private key, created on first use with mode 0600. Subscriptions are bound to it for good."""
    path = settings.KEYS_DIR / "vapid"
    if not path.exists():
        make_private(path.parent)
        fresh = ec.generate_private_key(ec.SECP256R1())
        create_file(  # keeps the file of a concurrent writer
            path,
            fresh.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
    return serialization.load_pem_private_key(path.read_bytes(), password=None)


def public_key() -> str:
    """Return the public key as browsers take it: the uncompressed point in base64url."""
    point = private_key().public_key()
    raw = point.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    return urlsafe_b64encode(raw).rstrip(b"=").decode()

"""The log's key pair (Ed25519): keys/log in HANDRAIL_HOME. It signs manifests."""

from base64 import b64encode
from functools import lru_cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from dashboard.files.atomic_write import create_file
from dashboard.keys.key_files import make_private


def private_key() -> Ed25519PrivateKey:
    """Return the private key, created on first use with mode 0600; later signatures need the same one."""
    path = settings.KEYS_DIR / "log"
    if not path.exists():
        make_private(path.parent)
        fresh = Ed25519PrivateKey.generate()
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        create_file(path, fresh.private_bytes(*form))  # keeps the file of a concurrent writer
    return _loaded(path.read_bytes())


@lru_cache(maxsize=2)
def _loaded(pem: bytes) -> Ed25519PrivateKey:
    return serialization.load_pem_private_key(pem, password=None)


def public_key() -> str:
    """Return the public key: 32 bytes in base64."""
    raw = private_key().public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return b64encode(raw).decode()

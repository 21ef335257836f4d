"""The two certificates of a Run: the keeper's and the runner's. Each end takes the other one alone."""

from datetime import UTC, datetime, timedelta

LASTS = timedelta(days=3650)  # a pod may live long, and nothing else checks it
BEFORE = timedelta(days=1)  # clocks differ


def pair(name: str) -> tuple[str, str]:
    """Return (certificate, private key) as PEM: a key of its own, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number(), now - BEFORE, now + LASTS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    how = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate, key.private_bytes(*how).decode()

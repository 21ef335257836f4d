"""Public keys of passkeys (COSE, RFC 9053): read one, and check a signature with it."""

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ALGORITHM, CURVE = 3, -1
# COSE's number of the algorithm: hash, curve, and COSE's number of the curve
ELLIPTIC = {
    -7: (hashes.SHA256, ec.SECP256R1, 1),
    -35: (hashes.SHA384, ec.SECP384R1, 2),
    -36: (hashes.SHA512, ec.SECP521R1, 3),
    -47: (hashes.SHA256, ec.SECP256K1, 8),
}
ML_DSA = {-48: "MLDSA44PublicKey", -49: "MLDSA65PublicKey", -50: "MLDSA87PublicKey"}  # from cryptography 47 on
MAX_DEPTH = 4


def verify(public_key: bytes, signature: bytes, signed: bytes):
    """Raise InvalidSignature unless this key signed these bytes; ValueError if the key can't be read."""
    key, rest = _value(public_key)
    if rest or not isinstance(key, dict):
        raise ValueError("not one COSE key")
    algorithm = key[ALGORITHM]
    if algorithm in ELLIPTIC:
        hashed, curve, number = ELLIPTIC[algorithm]
        if key[CURVE] != number:
            raise ValueError("another curve than that of the algorithm")
        numbers = ec.EllipticCurvePublicNumbers(_whole(key[-2]), _whole(key[-3]), curve())
        numbers.public_key().verify(signature, signed, ec.ECDSA(hashed()))
    elif algorithm == -8 and key[CURVE] == 6:
        Ed25519PublicKey.from_public_bytes(key[-2]).verify(signature, signed)
    elif algorithm in (-37, -257):
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.MAX_LENGTH)
        filled = pss if algorithm == -37 else padding.PKCS1v15()
        numbers = rsa.RSAPublicNumbers(_whole(key[-2]), _whole(key[-1]))
        numbers.public_key().verify(signature, signed, filled, hashes.SHA256())
    elif algorithm in ML_DSA:
        from cryptography.hazmat.primitives.asymmetric import mldsa  # here: older versions lack it

        getattr(mldsa, ML_DSA[algorithm]).from_public_bytes(key[-1]).verify(signature, signed)
    else:
        raise ValueError(f"an algorithm that is not known here: {algorithm}")


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _value(data: bytes, depth: int = 0):
    """Return a value of CBOR and what follows it: whole numbers, bytes, texts and maps, which is all that a key has."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    kind, count, rest = data[0] >> 5, data[0] & 31, data[1:]
    if count > 23:
        size = {24: 1, 25: 2, 26: 4, 27: 8}[count]
        count, rest = _whole(rest[:size]), rest[size:]
    if kind < 2:
        return (count if kind == 0 else -1 - count), rest
    if kind < 4:
        if len(rest) < count:
            raise ValueError("cut off")
        return (rest[:count] if kind == 2 else rest[:count].decode()), rest[count:]
    if kind != 5:
        raise ValueError("no part of a key")
    found = {}
    for _ in range(count):
        name, rest = _value(rest, depth + 1)
        found[name], rest = _value(rest, depth + 1)
    return found, rest

"""Signatures of each kind of passkey that Handrail accepts are checked as fido2 checks them."""

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, padding, rsa
from fido2 import cbor
from fido2 import cose as theirs

from handrail_verify import cose

SIGNED = b"authenticator data and hash"
PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.MAX_LENGTH)


def _elliptic(kind, curve, hashed):
    key = ec.generate_private_key(curve)
    return kind.from_cryptography_key(key.public_key()), key.sign(SIGNED, ec.ECDSA(hashed))


def _rsa(kind, filled):
    key = rsa.generate_private_key(65537, 2048)
    return kind.from_cryptography_key(key.public_key()), key.sign(SIGNED, filled, hashes.SHA256())


def _plain(kind, key):
    return kind.from_cryptography_key(key.public_key()), key.sign(SIGNED)


KEYS = {
    -7: lambda: _elliptic(theirs.ES256, ec.SECP256R1(), hashes.SHA256()),
    -8: lambda: _plain(theirs.EdDSA, ed25519.Ed25519PrivateKey.generate()),
    -35: lambda: _elliptic(theirs.ES384, ec.SECP384R1(), hashes.SHA384()),
    -36: lambda: _elliptic(theirs.ES512, ec.SECP521R1(), hashes.SHA512()),
    -37: lambda: _rsa(theirs.PS256, PSS),
    -257: lambda: _rsa(theirs.RS256, padding.PKCS1v15()),
    -47: lambda: _elliptic(theirs.ES256K, ec.SECP256K1(), hashes.SHA256()),
    -48: lambda: _plain(theirs.MLDSA44, mldsa.MLDSA44PrivateKey.generate()),
    -49: lambda: _plain(theirs.MLDSA65, mldsa.MLDSA65PrivateKey.generate()),
    -50: lambda: _plain(theirs.MLDSA87, mldsa.MLDSA87PrivateKey.generate()),
}


def test_every_kind_that_is_accepted_is_tried_here():
    assert set(theirs.CoseKey.supported_algorithms()) == set(KEYS)


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_signature_is_checked(algorithm):
    key, signature = KEYS[algorithm]()
    assert key[3] == algorithm
    written = cbor.encode(dict(key))
    cose.verify(written, signature, SIGNED)
    changed = bytes([*signature[:-1], signature[-1] ^ 1])
    for other in ((changed, SIGNED), (signature, SIGNED + b"!"), (b"", SIGNED)):
        with pytest.raises(InvalidSignature):
            cose.verify(written, *other)


@pytest.mark.parametrize("cut", range(1, 77, 5))
def test_a_key_that_is_cut_off_or_goes_on_cannot_be_read(cut):
    key, signature = KEYS[-7]()
    written = cbor.encode(dict(key))
    for wrong in (written[:-cut], written + b"\0" * cut):
        with pytest.raises((ValueError, IndexError, KeyError)):
            cose.verify(wrong, signature, SIGNED)

"""What an outside witness signed (RFC 3161): that a checkpoint was there at a time, which no desk can date back.

Needs the package rfc3161-client. `openssl ts -verify` comes to the same answer, see docs/verifying.md.
"""

from datetime import datetime

MAX_TOKEN = 64 * 1024  # bytes; an answer with its certificates takes some 6 KB


class BadTimestamp(ValueError):
    """A timestamp that does not verify; the message says why, on one line."""


def request(message: bytes):
    """Return a request to time-stamp these bytes: SHA-256, a nonce, with the certificates."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    return TimestampRequestBuilder().data(message).hash_algorithm(HashAlgorithm.SHA256).build()


def verify(answer: bytes, message: bytes, authorities: bytes, nonce: int | None = None) -> datetime:
    """Return when a witness time-stamped these bytes, in UTC. Raise BadTimestamp.

    `answer` is its whole answer (DER), `authorities` the PEM of the certificates that its own one has to come from.
    """
    from cryptography.x509 import load_pem_x509_certificates
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    try:
        roots = load_pem_x509_certificates(authorities)
    except ValueError:
        raise BadTimestamp("The file of the witness's authority holds no certificate in PEM form.") from None
    try:
        found = decode_timestamp_response(_in_order(answer[:MAX_TOKEN]))
        if found.status not in (0, 1):
            raise BadTimestamp(f"The witness refused it, with status {found.status}.")
        # What a root signed is in the answer; the others of the file only lead there.
        VerifierBuilder(roots=roots, nonce=nonce).build().verify_message(found, message)
    except VerificationError as error:
        raise BadTimestamp(f"The timestamp does not verify: {error}") from None
    except ValueError:
        raise BadTimestamp("The answer of the witness is no timestamp.") from None
    return found.tst_info.gen_time


def _in_order(answer: bytes) -> bytes:
    """Return an answer with its certificates in the order that DER asks for: OpenSSL sends them in another one.

    They are outside of what is signed, and the length stays the same. An answer of another form comes back as it is.
    """
    try:
        response = _parts(answer, 0)
        content = _parts(answer, response[1][0])  # of the token: its type, and the signed data in a box of its own
        signed = _parts(answer, _parts(answer, content[1][0])[0][0])
        start, end = next((start, end) for start, end in signed if answer[start] == 0xA0)
        certificates = [answer[one:other] for one, other in _parts(answer, start)]
    except (IndexError, StopIteration):
        return answer
    body = b"".join(sorted(certificates))
    return answer[: end - len(body)] + body + answer[end:]


def _parts(text: bytes, start: int) -> list[tuple[int, int]]:
    """Return the (start, end) of what the element that begins at `start` holds. IndexError if it is cut."""
    at, end = _content(text, start)
    found = []
    while at < end:
        found.append((at, _content(text, at)[1]))
        at = found[-1][1]
    return found


def _content(text: bytes, start: int) -> tuple[int, int]:
    """Return (start, end) of the content of an element in DER, with a tag of one byte. IndexError if it is cut."""
    length, at = text[start + 1], start + 2
    if length > 0x80:
        at += length - 0x80
        length = int.from_bytes(text[start + 2 : at])
    if at + length > len(text):
        raise IndexError(start)
    return at, at + length

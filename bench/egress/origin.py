"""A host over TLS that sends as many bytes as the path names: `GET /bytes/SIZE`."""

import asyncio
import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "origin.test"
BLOCK = bytes(range(256)) * 1024


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for the host; return (the file with its key, the file by which clients trust it)."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    whole, trusted = folder / "origin.pem", folder / "trusted.pem"
    whole.write_bytes(key.private_bytes(*plain) + public)
    trusted.write_bytes(public)
    return whole, trusted


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = int(head.split(b" ", 2)[1].rpartition(b"/")[2])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % size)
            while size:
                writer.write(BLOCK[:size])
                size -= len(BLOCK[:size])
                await writer.drain()
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def serve(certificate: Path, port: int):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(_answer, "127.0.0.1", port, ssl=context)
    await server.serve_forever()

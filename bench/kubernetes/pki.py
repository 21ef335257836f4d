"""The certificates of a cluster's parts, and the kubeconfig files that hold them."""

import base64
import datetime
import ipaddress
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=30)


class Authority:
    """A cluster's certificate authority, in the folder `folder` with every certificate that it has issued."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("handrail-cluster")
        usage = x509.BasicConstraints(ca=True, path_length=0)
        self._write("ca", self._built(self._name, self._key.public_key(), usage), self._key)

    def issue(self, name: str, subject: str, *, group: str = "", hosts: tuple[str, ...] = ()) -> None:
        """Write NAME.crt and NAME.key for a client and server `subject` of `group` at these addresses or names."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        extensions = [uses, *([x509.SubjectAlternativeName([_host(host) for host in hosts])] if hosts else [])]
        self._write(name, self._built(_name(subject, group), key.public_key(), *extensions), key)

    def kubeconfig(self, name: str, server: str) -> Path:
        """Write and return NAME.conf, with which NAME speaks with the API server; it needs no other file."""
        files = {"certificate-authority": "ca.crt", "client-certificate": f"{name}.crt", "client-key": f"{name}.key"}
        data = {key: base64.b64encode((self.folder / file).read_bytes()).decode() for key, file in files.items()}
        authority, certificate, key = ({f"{field}-data": content} for field, content in data.items())
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, **authority}}],
            "users": [{"name": name, "user": {**certificate, **key}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": name}}],
            "current-context": "c",
        }
        path = self.folder / f"{name}.conf"
        path.write_text(json.dumps(config, indent=1))
        path.chmod(0o600)
        return path

    def signing_pair(self, name: str) -> None:
        """Write NAME.key and NAME.pub, which sign the tokens of service accounts."""
        key = rsa.generate_private_key(65537, 2048)
        self._private(name, key)
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))

    def _built(self, subject: x509.Name, public, *extensions) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        built = x509.CertificateBuilder(self._name, subject, public, x509.random_serial_number())
        built = built.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + LIFE)
        for extension in extensions:
            built = built.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return built.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key) -> None:
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._private(name, key)

    def _private(self, name: str, key) -> None:
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path = self.folder / f"{name}.key"
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))


def _name(subject: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, subject)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

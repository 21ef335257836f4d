"""A passkey in software: what a browser and its authenticator answer, made with a key of the test's own."""

import json
import secrets

from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import Aaguid, AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

from dashboard.people import passkeys

FLAG = AuthenticatorData.FLAG


class SoftPasskey:
    """`add_to(user)` stores it as if it had been added on the page; `create` and `use` answer a browser's options."""

    def __init__(self, rp_id: str = "", origin: str = ""):
        self.rp_id, self.origin = rp_id or passkeys.relying_party(), origin or passkeys.origin()
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(16)
        self.user_handle = b""

    @property
    def public_key(self) -> ES256:
        return ES256.from_cryptography_key(self.key.public_key())

    def create(self, options: dict) -> dict:
        self.user_handle = websafe_decode(options["user"]["id"])
        credential = AttestedCredentialData.create(Aaguid(b"\0" * 16), self.id, self.public_key)
        flags = FLAG.UP | FLAG.UV | FLAG.AT
        data = AuthenticatorData.create(sha256(self.rp_id.encode()), flags, 0, bytes(credential))
        attestation = AttestationObject.create("none", data, {})
        client_data = self._client_data("webauthn.create", options["challenge"])
        response = {"attestationObject": websafe_encode(bytes(attestation)), "clientDataJSON": client_data}
        return self._credential(response)

    def use(self, options: dict, *, flags=FLAG.UP | FLAG.UV, origin: str = "", key=None) -> dict:
        data = bytes(AuthenticatorData.create(sha256(self.rp_id.encode()), flags, 0))
        client_data = self._client_data("webauthn.get", options["challenge"], origin)
        signed = data + sha256(websafe_decode(client_data))
        signature = (key or self.key).sign(signed, ec.ECDSA(hashes.SHA256()))
        response = {"authenticatorData": websafe_encode(data), "clientDataJSON": client_data}
        response |= {"signature": websafe_encode(signature), "userHandle": websafe_encode(self.user_handle)}
        return self._credential(response)

    def _client_data(self, kind: str, challenge: str, origin: str = "") -> str:
        given = {"type": kind, "challenge": challenge, "origin": origin or self.origin, "crossOrigin": False}
        return websafe_encode(bytes(CollectedClientData(json.dumps(given).encode())))

    def _credential(self, response: dict) -> dict:
        named = {"id": websafe_encode(self.id), "rawId": websafe_encode(self.id), "type": "public-key"}
        return named | {"response": response, "clientExtensionResults": {}}

    def add_to(self, user, name: str = "Phone") -> Authenticator:
        """Store it for the person; the log says so, as if it had been added on the page."""
        from dashboard.people.sign_ins import record_for_person
        from dashboard.site.second_factor import about

        credential = self.create({"challenge": "AAAA", "user": {"id": websafe_encode(str(user.pk).encode())}})
        data = {"name": name, "credential": credential, "rp_id": self.rp_id}
        stored = Authenticator.objects.create(user=user, type=Authenticator.Type.WEBAUTHN, data=data)
        record_for_person(user, "person.passkey_added", **about(stored))
        return stored

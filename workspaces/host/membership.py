"""Which hosts belong to this installation: each shows a certificate that the installation's authority issued.

The authority's key is in the database, encrypted with the key ring, which every host of an installation has. So each
process issues its own certificate: valid for a day, renewed after half of it, for the Runner row of its host. What a
certificate shows is not enough: the row must be there, and the host must not have been declared lost.
"""

import logging
import ssl
import threading
import time
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction

from dashboard.database import clock
from dashboard.keys import certificates, keyring
from dashboard.keys.certificates import Pair, Subject
from workspaces.host import paths
from workspaces.models import HostAuthority, Runner

logger = logging.getLogger("handrail.hosts")
CHECKED_FOR_S = 5.0  # how long the row of a member is not read again


class NotMember(Exception):
    """The other host, or this one, is no member of the installation; the text can be shown."""


def associated_data(row: HostAuthority) -> str:
    return f"authority of hosts {row.installation}"


def encrypted_column():
    """Return the column that a rotation of the key ring encrypts anew (secrets/rotation.py)."""
    return HostAuthority.objects.all(), associated_data


def authority() -> HostAuthority:
    """Return the authority, made by whichever host asks first."""
    found = HostAuthority.objects.filter(pk=HostAuthority.ONLY).first()
    return found or _made_authority()


def _made_authority() -> HostAuthority:
    now, row = clock.now(), HostAuthority(pk=HostAuthority.ONLY, installation=str(uuid.uuid4()))
    pair = certificates.make_authority(row.installation, now)
    row.certificate, row.made_at = pair.certificate.decode(), now
    with keyring.steady() as ring:
        row.value = ring.encrypt(pair.key, associated_data(row))
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:  # another process made it meanwhile
            return HostAuthority.objects.get(pk=HostAuthority.ONLY)
    return row


def fingerprint() -> str:
    """Return the SHA-256 of the authority's certificate in hex: what a new host can compare."""
    return certificates.fingerprint(authority().certificate.encode())


def issue(member: Runner) -> Pair:
    """Issue a certificate for the host of a row. Raise NotMember if the key ring here does not fit."""
    row = authority()
    try:
        key = keyring.load().decrypt(row.value, associated_data(row))
    except keyring.Unreadable as error:
        raise NotMember(f"This host has no certificate: the key of the authority cannot be read. {error}") from None
    issuer = Pair(row.certificate.encode(), key)
    at, member_id = clock.now(), str(member.pk)
    return certificates.issue(issuer, installation=row.installation, member=member_id, host=member.host, at=at)


def own_row() -> Runner:
    """Return the row of this host, made if nothing of it was ever started."""
    return Runner.objects.get_or_create(host=settings.HANDRAIL_HOST_NAME)[0]


class _Noting(ssl.SSLObject):
    """A server's end of a connection that logs in words why a handshake was refused."""

    def do_handshake(self):
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            logger.warning("a connection was refused: %s", in_words(error))
            raise


@dataclass
class _Shown:
    """What this process shows to others, and what it accepts."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    installation: str
    authority: str  # PEM
    renew_at: float  # monotonic


class Membership:
    """The certificates and contexts of one process."""

    def __init__(self):
        self._shown: _Shown | None = None
        self._renewing = threading.Lock()
        # (whom a certificate names, who was expected): (until when this is known, why it is refused)
        self._checked: dict[tuple[Subject, str], tuple[float, str]] = {}

    def contexts(self) -> _Shown:
        """Return the contexts, with a certificate that is no older than half of its life. It may ask the database."""
        shown = self._shown
        if shown is None or time.monotonic() > shown.renew_at:
            with self._renewing:
                if self._shown is shown:
                    self._shown = self._renewed()
        return self._shown

    def _renewed(self) -> _Shown:
        row, shown = authority(), self._shown
        pair = issue(own_row())
        if shown is None or shown.authority != row.certificate:
            made = [certificates.context(row.certificate.encode(), server=server) for server in (True, False)]
            made[0].sslobject_class = _Noting
            shown = _Shown(*made, row.installation, row.certificate, 0.0)
        for context in (shown.server, shown.client):
            certificates.show(context, pair, paths.runtime())
        shown.renew_at = time.monotonic() + certificates.LASTS.total_seconds() / 2
        return shown

    def refusal(self, verified: dict | None, *, expected: str = "") -> str:
        """Return why the other end of a connection is refused, as a message; "" if it is a member.

        `verified`: as `getpeercert` returns it; `expected`: the id of the row of the host that was called.
        """
        known = self.known_refusal(verified, expected=expected)
        if known is not None:
            return known
        subject = certificates.subject_of(verified or {})
        words = self._refused(subject, expected)
        if subject is not None:
            self._checked[subject, expected] = time.monotonic() + CHECKED_FOR_S, words
        return words

    def known_refusal(self, verified: dict | None, *, expected: str = "") -> str | None:
        """Return what `refusal` returned a moment ago; None if it has to be asked. Never asks the database."""
        subject = certificates.subject_of(verified or {})
        until, words = self._checked.get((subject, expected), (0.0, ""))
        return words if time.monotonic() < until else None

    def _refused(self, subject: Subject | None, expected: str) -> str:
        if subject is None:
            return "It shows no certificate of a host of Handrail."
        if subject.installation != self.contexts().installation:
            return f"The certificate of {subject.host} is of another installation."
        if expected and subject.member != expected:
            return f"Another host answers there: {subject.host}."
        if subject.expires_at <= clock.now():
            return f"The certificate of {subject.host} expired at {clock.in_utc(subject.expires_at)}."
        return _refused_row(subject)

    def forget(self):
        """Make new certificates and read the rows again at the next use."""
        self._shown, self._checked = None, {}


def _refused_row(subject: Subject) -> str:
    try:
        row = Runner.objects.filter(pk=uuid.UUID(subject.member)).first()
    except ValueError:
        row = None
    if row is None or row.removed_at is not None:
        return f"{subject.host} was removed from this installation."
    if row.lost_at is not None:
        return f"{row.host} was declared lost at {clock.in_utc(row.lost_at)}; others act for its workspaces now."
    return ""


def in_words(error: ssl.SSLError) -> str:
    """Return why a handshake failed, as a clause, at whichever end."""
    reason = (error.reason or "").upper()
    if isinstance(error, ssl.SSLCertVerificationError) or "UNKNOWN_CA" in reason or "DECRYPT_ERROR" in reason:
        return "the certificate is of another installation"
    if "CERTIFICATE_REQUIRED" in reason or "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return "no certificate was shown"
    return (error.reason or str(error)).replace("_", " ").lower()


membership = Membership()

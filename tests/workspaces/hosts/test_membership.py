"""Hosts of one installation know each other by certificates of its authority, and refuse all others in words."""

import logging
import ssl
from datetime import timedelta

import pytest
from cryptography import x509

from dashboard.database import clock
from dashboard.keys import certificates, keyring
from workspaces.host import membership
from workspaces.host.membership import Membership, NotMember
from workspaces.models import HostAuthority, Runner
from workspaces.secrets import rotation


@pytest.fixture
def other(db):
    return Runner.objects.create(host="host-b")


def meeting(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[dict, dict]:
    """Shake hands in memory; return the certificates that the server and the client have verified."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up)]
    done = [False, False]
    while not all(done):
        for at in (1, 0):
            try:
                ends[at].do_handshake()
                done[at] = True
            except ssl.SSLWantReadError:
                pass
    return ends[0].getpeercert(), ends[1].getpeercert()


def shows(row: Runner, *, at=None, authority: HostAuthority | None = None) -> ssl.SSLContext:
    """A client's context of the host of `row`, with a certificate that was issued at this time."""
    known = authority or membership.authority()
    context = certificates.context(known.certificate.encode(), server=False)
    with clock.frozen_at(at or clock.now()):
        certificates.show(context, membership.issue(row), membership.paths.runtime())
    return context


def test_two_hosts_of_an_installation_know_each_other(other):
    here = Membership()
    seen, answered = meeting(here.contexts().server, shows(other))
    assert certificates.subject_of(seen).host == "host-b"
    assert here.refusal(seen) == here.refusal(seen, expected=str(other.pk)) == ""
    assert certificates.subject_of(answered).member == str(membership.own_row().pk)


def test_a_certificate_is_valid_for_a_day_and_renewed_after_half_of_it(other, monkeypatch):
    made = x509.load_pem_x509_certificate(membership.issue(other).certificate)
    assert made.not_valid_after_utc - clock.now() < timedelta(days=1)
    here = Membership()
    shown = here.contexts()
    first, _ = meeting(shown.server, shown.client)
    assert here.contexts().renew_at == shown.renew_at
    shown.renew_at -= 12 * 3600 + 1
    again, _ = meeting(here.contexts().server, here.contexts().client)
    assert (again["serialNumber"] != first["serialNumber"], here.contexts().server is shown.server) == (True, True)


def test_an_expired_certificate_is_refused(other):
    here = Membership()
    seen, _ = meeting(here.contexts().server, shows(other, at=clock.now() - timedelta(days=2)))
    assert "The certificate of host-b expired at" in here.refusal(seen)


def test_a_host_that_was_removed_or_declared_lost_is_refused(other):
    here = Membership()
    seen, _ = meeting(here.contexts().server, shows(other))
    Runner.objects.update(lost_at=clock.now())
    assert "host-b was declared lost at" in here.refusal(seen)
    Runner.objects.update(lost_at=None)
    here.forget()
    assert here.refusal(seen) == ""
    other.delete()
    here.forget()
    assert here.refusal(seen) == "host-b was removed from this installation."


def test_another_host_than_the_one_that_was_called_is_refused(other):
    here = Membership()
    seen, _ = meeting(here.contexts().server, shows(other))
    assert here.refusal(seen, expected=str(membership.own_row().pk)) == "Another host answers there: host-b."


def test_a_host_of_another_installation_is_refused_at_both_ends(other, caplog):
    here, own = Membership(), membership.authority()
    context = here.contexts().server
    HostAuthority.objects.all().delete()
    foreign = shows(other)
    assert membership.authority().certificate != own.certificate
    with caplog.at_level(logging.WARNING, "handrail.hosts"), pytest.raises(ssl.SSLError) as refused:
        meeting(context, foreign)
    assert membership.in_words(refused.value) == "the certificate is of another installation"
    trusting = shows(other, authority=own)  # it takes ours, and shows its own
    with caplog.at_level(logging.WARNING, "handrail.hosts"), pytest.raises(ssl.SSLError):
        meeting(context, trusting)
    assert "a connection was refused: the certificate is of another installation" in caplog.text


def test_no_certificate_is_no_member(other):
    here = Membership()
    bare = certificates.context(membership.authority().certificate.encode(), server=False)
    with pytest.raises(ssl.SSLError) as refused:
        meeting(here.contexts().server, bare)
    assert membership.in_words(refused.value) == "no certificate was shown"
    assert here.refusal(None) == here.refusal({}) == "It shows no certificate of a host of Handrail."


def test_the_authority_is_made_once_and_moves_with_the_ring(other):
    first = membership.authority()
    assert membership._made_authority().certificate == first.certificate
    assert membership.fingerprint() == certificates.fingerprint(first.certificate.encode())
    rotation.rotate(say=lambda said: None)
    assert keyring.key_id(membership.authority().value) == keyring.load().newest.id
    assert membership.issue(other)


def test_without_the_ring_of_the_installation_no_certificate_is_issued(other, settings, tmp_path):
    membership.authority()
    settings.KEYS_DIR = tmp_path / "keys"
    with pytest.raises(NotMember, match="key of the authority cannot be read"):
        membership.issue(other)


def test_no_key_of_a_certificate_stays_on_the_disk(other):
    Membership().contexts()
    assert list(membership.paths.runtime().glob(".certificate-*")) == []

"""Pages of a team's credentials for repositories: a deploy key is set, shown by its public part, and replaced."""

import html
import subprocess
from urllib.parse import quote

import pytest

from workspaces.models import Secret

ORIGIN = "ssh://git.example.org:2222"


@pytest.fixture
def lead(lena, browser_of):
    return browser_of(lena)


@pytest.fixture
def key(tmp_path):
    """`key(name)`: the private and the public part of a new key."""

    def make(name):
        file = tmp_path / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)], check=True)
        return file.read_text(), file.with_suffix(".pub").read_text().strip()

    return make


def say(response) -> str:
    return html.unescape(response.content.decode())


def set_key(lead, private, host_key, **fields):
    wish = {"team": "payments", "name": "SSH_KEY_EXAMPLE", "scope": "host", "origin": ORIGIN}
    return lead.post("/secrets/new/", wish | {"value": private, "host_key": host_key} | fields, follow=True)


def test_a_link_fills_name_receiver_and_origin(lead, team):
    shown = say(lead.get(f"/secrets/new/?name=SSH_KEY_EXAMPLE&scope=host&origin={quote(ORIGIN, safe='')}"))
    assert 'value="SSH_KEY_EXAMPLE"' in shown
    assert f'value="{ORIGIN}"' in shown
    assert '<option value="host" selected>' in shown


def test_a_key_is_shown_by_its_public_part_alone(lead, team, key):
    private, public = key("deploy")
    _, of_host = key("host")
    assert "SSH_KEY_EXAMPLE is set" in say(set_key(lead, private.replace("\n", "\r\n"), f"git.example.org {of_host}"))
    secret = Secret.objects.get()
    assert (secret.origin, secret.host_key, secret.public_key) == (ORIGIN, of_host, public)
    page = say(lead.get(f"/secrets/{secret.pk}/"))
    assert public in page
    assert "SHA256:" in page
    assert not any(line in page for line in private.splitlines()[:-1])


def test_a_refused_key_is_reported_at_its_field_and_is_not_repeated(lead, team, key):
    private, _ = key("deploy")
    page = say(set_key(lead, private, ""))
    assert "ssh-keyscan HOST" in page
    assert private.splitlines()[1] not in page
    assert "Give an ssh private key" in say(set_key(lead, "a-token", "ssh-ed25519 AAAA"))
    assert not Secret.objects.exists()


def test_another_host_key_is_pinned_without_the_private_key(lead, team, key):
    private, public = key("deploy")
    set_key(lead, private, key("host")[1])
    secret, another = Secret.objects.get(), key("another")[1]
    lead.post(f"/secrets/{secret.pk}/", {"value": "", "origin": ORIGIN, "host_key": another})
    kept = Secret.objects.get()
    assert (kept.host_key, kept.public_key, kept.version) == (another, public, secret.version)


def test_a_reviewer_sees_no_page_of_it(lead, team, key, bob, browser_of):
    set_key(lead, key("deploy")[0], key("host")[1])
    assert browser_of(bob).get(f"/secrets/{Secret.objects.get().pk}/").status_code == 403

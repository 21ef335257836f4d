"""Passkeys in a real Chromium, with the virtual authenticator of the DevTools protocol: adding one, signing in with it,
and approving a critical action."""

import re
import zlib

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import SIZES, TAPS, settle
from .test_every_page import SERIOUS

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}

# The card changes while the device asks its person, so that its buttons rest when the answer comes.
CHANGES_MEANWHILE = """
const get = navigator.credentials.get.bind(navigator.credentials);
navigator.credentials.get = async (options) => {
  const found = await get(options);
  document.dispatchEvent(new CustomEvent("changed"));
  return found;
};
"""


class Authenticator:
    """What the browser of this page has as its device's authenticator."""

    def __init__(self, page):
        self.devtools = page.context.new_cdp_session(page)
        self.devtools.send("WebAuthn.enable")
        self.id = self.devtools.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]

    @property
    def credentials(self) -> list[dict]:
        return self.devtools.send("WebAuthn.getCredentials", {"authenticatorId": self.id})["credentials"]

    def verifies(self, its_person: bool):
        named = {"authenticatorId": self.id, "isUserVerified": its_person}
        self.devtools.send("WebAuthn.setUserVerified", named)


@pytest.fixture
def pat(person, product, request):
    """A page of Pat, a person of this test only, and the authenticator with Pat's only passkey."""
    page = person(f"pat-{zlib.crc32(request.node.name.encode())}")
    device = Authenticator(page)
    page.goto(f"{product.desk}/me/")
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Name").fill("Test device")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.locator("h1")).to_have_text("Recovery codes")
    expect(page.locator("main li code")).to_have_count(10)
    return page, device


def faults_of(page) -> list[str]:
    """What axe finds in both themes, and what is too wide, on the page as it is."""
    page.evaluate(AXE_SCRIPT)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += page.evaluate(SERIOUS)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found += [f"{wide} px too wide"] if wide > 0 else []
    page.emulate_media(color_scheme="light")
    return found


def test_a_passkey_is_added_named_used_to_sign_in_and_removed(pat, product):
    page, device = pat
    [credential] = device.credentials
    assert (credential["rpId"], credential["isResidentCredential"]) == ("handrail.localhost", True)
    page.get_by_role("link", name="Done").click()
    section = page.locator("section[aria-labelledby=me-access]")
    expect(section).to_contain_text("Test device")
    assert faults_of(page) == []

    page.get_by_role("link", name="Rename Test device").click()
    page.get_by_label("Name").fill("My phone")
    page.get_by_role("button", name="Save").click()
    expect(section).to_contain_text("My phone")

    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("button", name="Sign in with a passkey")).to_be_visible()
    assert faults_of(page) == []
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page).to_have_url(f"{product.desk}/")

    page.goto(f"{product.desk}/me/")
    page.get_by_role("link", name="Remove My phone").click()
    expect(page.locator("h1")).to_have_text("Confirm that it is you")
    expect(page.get_by_role("link", name="Use a code")).to_be_visible()
    assert faults_of(page) == []
    page.get_by_role("button", name="Confirm with a passkey").click()
    expect(page.locator("h1")).to_have_text("Remove My phone?")
    page.get_by_role("button", name="Remove the passkey").click()
    expect(section).not_to_contain_text("My phone")


def approve(page):
    settle(page)
    page.locator("#bar").get_by_role("button", name="Approve…").click()
    settle(page)
    page.locator("#bar").get_by_role("button", name="Confirm: approve").click()


def test_a_critical_action_is_approved_with_the_passkey(pat, product, token, ask):
    page, _ = pat
    asked = ask("git push --force origin main")
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    expect(page.locator("[data-passkey-for]")).to_contain_text("Approving this takes your passkey")
    assert faults_of(page) == []
    approve(page)
    expect(page.locator(".messages, .notice").first).to_contain_text("Approved by you. Someone else must approve too")
    assert product.get(f"/api/v1/actions/{asked['id']}", token).json["votes"] == 1
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    page.locator("#card summary", has_text="More").click()
    expect(page.locator("article.card")).to_contain_text(re.compile(r"confirmed with passkey\s+Test device"))
    done = product.manage("verify_passkeys", "--team", "browser")
    assert done.returncode == 0, done.stdout + done.stderr
    product.post(f"/api/v1/actions/{asked['id']}/cancel", token)


def test_a_passkey_that_does_not_know_its_person_approves_nothing(pat, product, token, ask):
    page, device = pat
    asked = ask("git push --force origin main && git status")
    device.verifies(False)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    approve(page)
    line = page.locator("#bar [data-passkey-says]")
    expect(line).to_have_text("No passkey was used. Nothing was sent.")
    assert product.get(f"/api/v1/actions/{asked['id']}", token).json["votes"] == 0
    device.verifies(True)
    page.locator("#bar").get_by_role("button", name="Confirm: approve").click()
    expect(page.locator(".notice").first).to_contain_text("Approved by you.")
    product.post(f"/api/v1/actions/{asked['id']}/cancel", token)


def test_denying_asks_for_no_passkey(pat, product, token, ask):
    page, device = pat
    asked = ask("git push --force origin main && git log")
    device.verifies(False)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    settle(page)
    page.locator("#bar").get_by_role("button", name="Deny…").click()
    settle(page)
    page.locator("#bar").get_by_role("button", name="Deny").last.click()
    expect(page.locator(".notice").first).to_contain_text("Denied")
    assert product.get(f"/api/v1/actions/{asked['id']}", token).json["status"] == "denied"


PAGES = ["accounts/2fa/passkeys/add/", "accounts/2fa/totp/activate/", "accounts/2fa/recovery-codes/"]


def test_its_pages_have_no_fault(pat, product):
    page, _ = pat
    for address in PAGES:
        page.goto(f"{product.desk}/{address}")
        expect(page.locator("h1")).not_to_have_text("Confirm that it is you")
        assert faults_of(page) == [], address


def test_the_only_approver_of_a_team_approves_alone_with_the_passkey(chromium, product, size):
    """After signing in with it: a link that was used this minute would not do."""
    team, name = f"alone-{size}", f"solo-{size}"
    body = {"tool": "Bash", "arguments": {"command": "git push --force origin main"}, "mode": "gate"}
    asked = product.post("/api/v1/actions", agent := product.agent_token("lone-agent", team), body).json
    context = chromium.new_context(viewport=SIZES[size])
    context.add_init_script(TAPS)
    context.add_init_script(CHANGES_MEANWHILE)
    page = context.new_page()
    page.goto(product.sign_in_url(name, "admin", team))
    page.locator("main button").click()
    Authenticator(page)
    page.goto(f"{product.desk}/accounts/2fa/passkeys/add/")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.locator("h1")).to_have_text("Recovery codes")
    page.goto(f"{product.desk}/me/")
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page).to_have_url(f"{product.desk}/")
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    page.get_by_role("button", name="Approve alone…").click()
    page.get_by_label("to approve this alone").fill("lone-agent")
    settle(page)
    page.get_by_role("button", name="Approve alone", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("Approved by you alone")
    assert product.get(f"/api/v1/actions/{asked['id']}", agent).json["status"] == "approved"
    assert product.manage("verify_passkeys", "--team", team).returncode == 0
    context.close()

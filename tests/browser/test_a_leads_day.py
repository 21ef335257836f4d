"""What leads and admins do, in a real Chromium on a phone and on a desktop: workspaces, people, rules."""

import io
import re
import tarfile
import time

import pytest
from playwright.sync_api import expect

from .conftest import HERE, TEAM, press, settle

MAKE_ROOT = """
from django.contrib.auth import get_user_model
get_user_model().objects.filter(username="root-of-all").update(is_staff=True, is_superuser=True)
"""


@pytest.fixture
def lead(person):
    return person("lena", "lead")


@pytest.fixture
def stamp(size) -> str:
    """A word that no other test uses."""
    return f"{size}-{time.time_ns():x}"


def tar_of(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def test_an_environment_its_checks_and_a_workspace_of_a_tar_from_it(product, token, lead, stamp):
    lead.goto(f"{product.desk}/environments/new/")
    lead.get_by_label("Name").fill(stamp)
    lead.get_by_text("Advanced").click()
    lead.get_by_label("Checks").fill("tests = grep -q 42 answer.txt")
    lead.get_by_role("button", name="Save").click()
    expect(lead.locator("h1")).to_have_text(stamp)
    lead.goto(f"{product.desk}/workspaces/new/")
    lead.get_by_label("Name").fill(stamp)
    lead.get_by_label(re.compile(f"{stamp}, version 1. Sandboxed: sees only its own folder")).check()
    tar = {"name": "answer.tar.gz", "mimeType": "application/gzip", "buffer": tar_of("answer.txt", b"42\n")}
    lead.get_by_label("Upload a .tar").set_input_files(tar)
    lead.get_by_role("button", name="Create workspace").click()
    expect(lead.locator("h1")).to_have_text(stamp)
    settled_in(lead, product, stamp)
    lead.goto(product.desk + HERE.format(key=stamp) + "checks/")
    lead.get_by_role("button", name="Run tests").click()
    expect(lead.locator("#command")).to_contain_text("Done")
    lead.goto(product.desk + HERE.format(key=stamp) + "checks/")
    expect(lead.locator("#checks")).to_contain_text("Passed")
    expect(lead.locator("#checks")).to_contain_text("after snapshot 1")


def settled_in(page, product, key):
    """Until the page of the workspace says that it is ready."""
    page.goto(product.desk + HERE.format(key=key))
    expect(page.locator("#workspace-head .state").first).to_have_text("Ready")


def test_a_part_and_a_file_are_taken_back_a_copy_is_made_and_the_work_gets_out(product, token, lead, workspace, stamp):
    here = product.desk + HERE.format(key=workspace)
    api = f"/api/v1/workspaces/{workspace}"
    was = product.get(f"{api}/files/cart.py?snapshot=1", token).body
    changed = was.replace(b"sum(items)", f"sum(items)  # {stamp}".encode()).replace(b"return []", b"return ()")
    product.call("PUT", f"{api}/files/cart.py", token, changed)
    product.call("PUT", f"{api}/files/{stamp}.txt", token, b"new\n")
    lead.goto(f"{here}changes/?from=1&to=live")
    file = lead.locator(".diff").filter(has=lead.locator(".diff-path", has_text="cart.py"))
    file.get_by_role("button", name=re.compile("Restore this part"), exact=False).filter(visible=True).first.click()
    expect(lead.locator(".notices, .notice").first).to_contain_text("Reverted.")
    now = product.get(f"{api}/files/cart.py", token).body
    assert (stamp.encode() in now, b"return ()" in now) == (False, True)
    file = lead.locator(".diff").filter(has=lead.locator(".diff-path", has_text="cart.py"))
    file.get_by_role("button", name="Restore this file from snapshot 1").click()
    expect(lead.locator("#operation")).to_contain_text("Verified.")
    assert product.get(f"{api}/files/cart.py", token).body == was
    lead.goto(f"{here}snapshots/1/fork/")
    lead.get_by_label("Name").fill(f"fork-{stamp}")
    lead.get_by_role("button", name="Fork").click()
    expect(lead.locator("h1")).to_have_text(f"fork-{stamp}")
    settled_in(lead, product, f"fork-{stamp}")
    lead.goto(f"{here}changes/?from=1&to=live")
    lead.locator("summary[aria-label='More about these changes']").click()
    lead.get_by_text("Export", exact=True).click()
    with lead.expect_download() as download:
        lead.get_by_role("button", name="Download commits as a git bundle").click()
    with open(download.value.path(), "rb") as bundle:
        assert bundle.readline().startswith(b"# v")


def test_people_are_invited_by_links_and_codes(product, person, stamp):
    admin = person("anna", "admin")
    admin.goto(f"{product.desk}/team/")
    admin.get_by_label("Names or e-mail addresses").fill(f"nora-{stamp}\nBen Adams <ben-{stamp}@example.org>")
    admin.get_by_role("button", name="Add and show the links").click()
    expect(admin.locator("h1")).to_have_text("Sign-in links for 2 people")
    expect(admin.locator(".qr-box svg")).to_have_count(2)
    link = admin.locator(".ways-in .command code").first.inner_text()
    admin.context.clear_cookies()
    admin.goto(link)
    admin.locator("main button").click()
    expect(admin).to_have_url(f"{product.desk}/")
    admin.goto(link)
    expect(admin.locator("main")).to_contain_text("used")


def test_the_policy_is_changed_by_its_editor_and_holds_its_tests(product, token, lead, ask):
    lead.goto(f"{product.desk}/policy/edit/?team={TEAM}")
    text = lead.get_by_label("Rules").input_value()
    rules = re.sub(r"(?m)^forbidden = \[", 'forbidden = [\n  "Bash(shutdown *)",', text, count=1)
    rules = rules if rules != text else f'{text}\nforbidden = ["Bash(shutdown *)"]\n'
    lead.get_by_label("Rules").fill(rules)
    lead.get_by_role("button", name="Save and activate").click()
    expect(lead.locator(".notice").first).to_contain_text("is now active.")
    assert ask("shutdown now")["tier"] == "forbidden"
    lead.goto(f"{product.desk}/policy/?try=shutdown+now")
    expect(lead.locator(".panel")).to_contain_text("Forbidden")
    lead.goto(f"{product.desk}/policy/edit/?team={TEAM}")
    lead.get_by_label("Rules").fill(text)
    lead.get_by_role("button", name="Save and activate").click()
    expect(lead.locator(".notice").first).to_contain_text("is now active")


def test_retention_in_the_admin_shows_what_would_go_before_it_is_saved(product, token, workspace, person):
    page = person("root-of-all", "admin")
    product.shell(MAKE_ROOT)
    for _ in range(2):
        assert product.post(f"/api/v1/workspaces/{workspace}/snapshots", token, {}).status == 201
    page.goto(f"{product.desk}/admin/workspaces/teamretention/")
    page.get_by_role("link", name="Browser", exact=True).click()
    page.get_by_label("Other snapshots: days").fill("0")
    for count in ("newest", "monthly"):
        page.get_by_label(f"Other snapshots: {count}").fill("0")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#next")).to_contain_text("These rules would delete")
    expect(page.locator("#next")).to_contain_text(workspace)
    expect(page.get_by_role("button", name="Save, and delete what is listed above")).to_be_visible()


@pytest.mark.parametrize("size", ["desktop"])
def test_keys_open_the_steps_of_a_card_and_the_pages(product, person, ask, workspace):
    page = person("rita")
    action = ask(f"git push origin keys-{time.time_ns()}", workspace=workspace)
    page.goto(f"{product.desk}/waiting/")
    page.keyboard.press("?")
    expect(page.locator("#keys-help")).to_be_visible()
    page.keyboard.press("Escape")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    press(page, "d")
    expect(page.get_by_label("Tell the agent")).to_be_focused()
    page.keyboard.type("a t c")  # keys rest in fields
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("Denied")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(f"{product.desk}/workspaces/")
    page.goto(product.desk + HERE.format(key=workspace))
    page.keyboard.press("c")
    page.wait_for_url("**/changes/")
    page.keyboard.press("t")
    page.wait_for_url("**/terminals/")

"""The loop as people see it: a real Chromium, the whole product, a phone and a desktop."""

import subprocess
import time

from playwright.sync_api import expect

from tests.support.chromium import fetch

from .conftest import HERE, settle


def card(product, action) -> str:
    return f"{product.desk}/actions/{action['id']}/"


def status(product, token, action) -> dict:
    return product.get(f"/api/v1/actions/{action['id']}", token).json


def test_a_card_arrives_without_a_reload_and_is_approved_in_two_taps(product, token, person, ask):
    page = person("rita")
    page.goto(f"{product.desk}/waiting/")
    page.wait_for_load_state("networkidle")
    action = ask(f"git push origin live-{time.time()}")
    expect(page.locator(f"#action-{action['id']}, #waiting-rows-new")).to_be_visible()
    page.goto(card(product, action))
    settle(page)
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    expect(page.locator(".notice").first).to_contain_text("Approved: Push to")
    decided = status(product, token, action)
    assert (decided["status"], decided["decision"]["by"]) == ("approved", "rita")


def test_a_no_with_its_reason_changes_the_card_of_others_in_place(product, token, person, ask):
    rita, rolf = person("rita"), person("rolf")
    action = ask(f"git push origin no-{time.time()}")
    for page in (rita, rolf):
        page.goto(card(product, action))
        settle(page)
    rolf.get_by_role("button", name="Deny…").click()
    rolf.get_by_label("Tell the agent").fill("half a thought")
    rita.get_by_role("button", name="Deny…").click()
    rita.get_by_label("Tell the agent").fill("Use the staging branch.")
    rita.get_by_role("button", name="Deny", exact=True).click()
    expect(rolf.locator("#card")).to_contain_text("rita denied this")
    expect(rolf.locator("#bar textarea")).to_have_count(0)
    decision = status(product, token, action)["decision"]
    assert (decision["verdict"], decision["comment"]) == ("deny", "Use the staging branch.")


def test_an_edit_is_shown_as_a_difference_and_sent_to_the_agent(product, token, person, ask):
    page = person("rita")
    action = ask("git push origin main")
    page.goto(card(product, action))
    page.get_by_role("link", name="Edit").click()
    expect(page.locator(".cm-editor")).to_be_visible()  # it takes the place of the plain field
    page.get_by_role("textbox", name="Command", exact=True).fill("git push origin staging")
    page.get_by_role("button", name="Preview difference").click()
    expect(page.locator("tr.added .line")).to_have_text("git push origin staging")
    page.get_by_role("button", name="Approve edited version").click()
    expect(page.locator(".notice").first).to_contain_text("Changed and approved")
    decided = status(product, token, action)
    assert decided["arguments"] == {"command": "git push origin staging"}
    assert (decided["status"], decided["decision"]["edited"]) == ("approved", True)


def test_a_long_command_is_read_to_its_end_first(product, token, person, ask):
    page = person("rita")
    lines = "\n".join(f"echo {number}" for number in range(400))
    action = ask(f"git push origin main\n{lines}\necho end-{time.time()}")
    page.goto(card(product, action))
    page.wait_for_timeout(800)
    approve = page.get_by_role("button", name="Approve…")
    expect(approve).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("Open the 370 hidden lines to approve")).to_be_visible()
    page.locator("details[data-must-read] > summary").click()
    page.locator("details[data-must-read] .fold-end").scroll_into_view_if_needed()
    expect(approve).not_to_have_attribute("aria-disabled", "true")


def test_all_of_it_works_without_javascript(product, token, person, ask):
    page = person("rita", java_script_enabled=False)
    action = ask(f"git push origin plain-{time.time()}")
    page.goto(card(product, action))
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    expect(page.locator(".notice").first).to_contain_text("Approved: ")
    assert status(product, token, action)["status"] == "approved"


def test_a_brokered_write_is_seen_before_approved_run_and_rolled_back(product, token, person, workspace):
    lead = person("lena", "lead")
    write = {"file_path": "/workspace/.github/workflows/ci.yml", "content": f"on: push\n# {time.time()}\n"}
    body = {"workspace": workspace, "tool": "Write", "arguments": write, "mode": "broker"}
    answer = product.post("/api/v1/actions", token, body)
    assert answer.status == 201, answer.text
    action = answer.json
    lead.goto(card(product, action))
    expect(lead.locator("tr.added .line").first).to_have_text("on: push")
    if action["status"] == "pending":
        settle(lead)
        lead.locator("#bar .main").first.click()
        if lead.get_by_role("button", name="Confirm: approve").count():
            lead.get_by_role("button", name="Confirm: approve").click()
    for _ in range(60):
        if status(product, token, action)["status"] == "succeeded":
            break
        time.sleep(0.25)
    lead.goto(card(product, action))
    expect(lead.locator("#card")).to_contain_text("Done")
    lead.get_by_role("link", name="Roll back").click()
    expect(lead.locator("h1")).to_have_text(f"Roll back A-{action['number']}?")
    expect(lead.locator(".targets code")).to_have_text([".github/workflows/ci.yml"])
    lead.get_by_role("button", name="Roll back", exact=True).click()
    expect(lead.locator("#operation")).to_contain_text("Verified.")
    assert product.get(f"/api/v1/workspaces/{workspace}/files/.github/workflows/ci.yml", token).status == 404


def test_changes_files_restore_and_undo(product, token, person, workspace):
    lead = person("lena", "lead")
    here = product.desk + HERE.format(key=workspace)
    stamp = f"# {time.time()}"
    lead.goto(f"{here}checks/")
    lead.get_by_label("Command (bash, in /workspace)").fill(f"echo '{stamp}' >> cart.py; echo said")
    lead.get_by_role("button", name="Run", exact=True).click()
    expect(lead.locator("#command")).to_contain_text("Done")
    expect(lead.locator("#command pre")).to_contain_text("said")
    lead.goto(f"{here}changes/")
    # One of two: unified on a phone, side by side on a desktop.
    added = lead.locator("tr.added .line, td.line.added").filter(has_text=stamp, visible=True)
    expect(added).to_have_count(1)
    lead.goto(f"{here}files/?path=cart.py")
    expect(lead.locator("ol.numbered")).to_contain_text(stamp)
    lead.goto(f"{here}files/?path=cart.py&at=1")
    expect(lead.locator("ol.numbered")).not_to_contain_text(stamp)
    lead.goto(f"{here}snapshots/1/restore/")
    lead.get_by_role("button", name="Restore", exact=True).click()
    expect(lead.locator("#operation")).to_contain_text("Restored to snapshot 1. Verified.")
    assert stamp.encode() not in product.get(f"/api/v1/workspaces/{workspace}/files/cart.py", token).body
    lead.get_by_role("link", name="Undo: restore snapshot").click()
    lead.get_by_role("button", name="Restore", exact=True).click()
    expect(lead.locator("#operation")).to_contain_text("Restored to snapshot")
    assert stamp.encode() in product.get(f"/api/v1/workspaces/{workspace}/files/cart.py", token).body


def test_a_patch_is_what_git_applies(product, token, person, workspace, tmp_path):
    lead = person("lena", "lead")
    here = product.desk + HERE.format(key=workspace)
    product.call("PUT", f"/api/v1/workspaces/{workspace}/files/note.txt", token, b"a note\n")
    lead.goto(f"{here}changes/?from=1&to=live")
    lead.locator("summary[aria-label='More about these changes']").click()
    with lead.expect_download() as download:
        lead.get_by_role("link", name="Download patch").click()
    patch = tmp_path / "p.patch"
    download.value.save_as(patch)
    assert b"+a note" in patch.read_bytes()
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "--include=note.txt", str(patch)], cwd=tmp_path, check=True)
    assert (tmp_path / "note.txt").read_text() == "a note\n"


def test_agents_files_come_as_downloads_that_do_nothing(product, token, person, workspace):
    lead = person("lena", "lead")
    html = b"<script>alert(document.domain)</script>"
    product.call("PUT", f"/api/v1/workspaces/{workspace}/files/evil.html", token, html)
    response = fetch(lead, product, HERE.format(key=workspace) + "files/raw/?path=evil.html")
    assert response.body() == html
    assert response.headers["content-disposition"].startswith("attachment")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in response.headers["content-security-policy"]

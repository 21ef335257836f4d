"""The policy on the past, in a browser: it loads when opened, one tap trusts, and hostile commands are harmless."""

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.approvals.past.conftest import Home

from .conftest import TEAM

HOSTILE = "frob <img src=x onerror=alert(1)> \u202eevil " + "x" * 700


@pytest.fixture
def folder(product, token, tmp_path, size):
    root = tmp_path / f"calc-{size}"
    root.mkdir()
    tmp_path.chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    home = Home.of(Path(product.environment["HOME"]))
    rows = [home.claude_row(f"gh pr view {n}", cwd=str(root)) for n in range(4)]
    file = home.claude(
        *rows,
        home.claude_row(HOSTILE, cwd=str(root)),
        home.claude_row("ls", cwd=str(root)),
        name=f"-{root.name}/a.jsonl",
    )
    done = product.manage("connect", "claude-code", str(root), "--team", TEAM)
    assert done.returncode == 0, done.stderr
    yield root.name
    product.manage("disconnect", str(root))
    shutil.rmtree(file.parent)


def test_past_calls_load_when_opened_and_one_tap_trusts_a_program(product, person, folder, size):
    page = person("lea", "lead")
    page.goto(f"{product.desk}/policy/?team={TEAM}&environment=folder-{folder}")
    page.get_by_text("What this policy would have asked").click()
    report = page.locator("#past-report")
    expect(report).to_contain_text("In your last 30 days 6 calls (Claude Code 6)")
    expect(report).to_contain_text("Trusting reads at the code host leaves 1.")
    report.get_by_text("What an attacker could do with it").click()
    for group in report.locator("details.fold:not(.inline) > summary").all():
        group.click()
    expect(report).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    report.get_by_role("button", name="Trust reads at the code host").click()
    expect(page.get_by_text("reads at the code host is trusted from now on.")).to_be_visible()
    expect(page.locator("#past-report")).to_contain_text("This policy would have asked you 1 time")

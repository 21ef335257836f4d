"""What agents write is shown in a real browser so that nothing hides, on a phone of 360 px.

Each text decodes back to its exact bytes by the rule of dashboard/text/visible_text.py; nothing runs or loads, and
long ones are read to their end before they can be approved.
"""

import base64
import json
import re
import shutil
import urllib.parse

import pytest
from playwright.sync_api import expect

from approvals.pages.row_part import MAX_ROW_LINE
from tests.dashboard.frontend.test_visible import PAYLOADS, raw

TEXTS = [payload for payload in PAYLOADS if isinstance(payload, str)]
COMMANDS = [text for text in TEXTS if "\0" not in text]  # with a NUL no command is taken
PUSH = "git push origin main\n"  # makes any command one that waits
# The documented rule, in the browser: of each element, or of all that a selector finds in it, the bytes as base64.
DECODE = r"""([selector, within]) => {
  const encoder = new TextEncoder();
  function* bytes(node) {
    if (node.nodeType === Node.TEXT_NODE) { yield* encoder.encode(node.data); return; }
    if (node.dataset && "bytes" in node.dataset) {
      const pairs = node.dataset.bytes.match(/../g) ?? [];
      for (let n = 0; n < Number(node.dataset.times ?? 1); n++) for (const pair of pairs) yield parseInt(pair, 16);
      return;
    }
    for (const child of node.childNodes) yield* bytes(child);
  }
  return [...document.querySelectorAll(selector)].map((element) => {
    const parts = within ? [...element.querySelectorAll(within)] : [element];
    let binary = "";
    for (const part of parts) for (const byte of bytes(part)) binary += String.fromCharCode(byte);
    return btoa(binary);
  });
}"""
WATCH = """window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
window.alert = window.confirm = window.prompt = () => window.violations.push("a dialog");"""


@pytest.fixture(scope="module")
def phone(product, chromium):
    """A reviewer's phone that fails the module when anything was run, loaded from elsewhere, or refused by the CSP."""
    context = chromium.new_context(viewport={"width": 360, "height": 740})
    context.add_init_script(WATCH)
    found = context.new_page()
    found.strange = []
    found.on("dialog", lambda dialog: (found.strange.append(dialog.message), dialog.dismiss()))
    found.on("pageerror", lambda error: found.strange.append(str(error)))
    found.on("console", lambda said: found.strange.append(said.text) if "Policy" in said.text else None)
    found.on("request", lambda request: _note_origin(found, request.url, product.desk))
    found.goto(product.sign_in_url("display-reviewer", "lead").replace(product.url, product.desk))
    found.locator("main button").click()
    yield found
    context.close()


def _note_origin(phone, url, own):
    if not url.startswith((own + "/", "data:", "blob:")):
        phone.strange.append(url)


@pytest.fixture(autouse=True)
def nothing_runs_and_nothing_loads(phone):
    yield
    assert phone.strange == []


def decoded(phone, selector, within="") -> list[bytes]:
    """What the elements say by the documented rule; on the way, that the page did nothing by itself."""
    assert phone.evaluate("window.violations") == []
    assert phone.locator("img, iframe, object, embed, script:not([src]):not([type=importmap])").count() == 0
    wide = phone.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{phone.url} is {wide} px too wide"
    return [base64.b64decode(text) for text in phone.evaluate(DECODE, [selector, within])]


def cut(text: str, count: int) -> bytes:
    return (text if len(text) <= count else f"{text[:count]}…").encode()


@pytest.fixture(scope="module")
def token(product):
    return product.agent_token("display-agent")


@pytest.fixture(scope="module")
def asked(product, token):
    """An action for each payload that is a text, as the API told it."""

    def ask(command):
        body = {"tool": "Bash", "arguments": {"command": command}, "mode": "gate"}
        answer = product.post("/api/v1/actions", token, body)
        assert answer.status == 201, answer.text
        return answer.json

    return {text: ask(PUSH + text) for text in COMMANDS}


@pytest.fixture(scope="module")
def workspace(product, token):
    made = product.post("/api/v1/workspaces", token, {"key": "display"})
    assert made.status == 201, made.text
    settled = {"busy": "?"}
    while settled["busy"]:
        settled = product.get("/api/v1/workspaces/display?wait=20", token).json
    assert settled["state"] == "ready", settled
    ask = "from workspaces.models import Workspace; print(Workspace.objects.get(key='display').pk)"
    return product.home / "workspaces" / product.shell(ask) / "tree"


def titles(asked) -> dict:
    return {action["id"]: (action["title"], text) for text, action in asked.items()}


# Questions -----------------------------------------------------------------------------------------------------------


def test_lists_of_what_waits_and_what_was_asked(product, phone, asked):
    for address in ("/waiting/?agent=display-agent&rows=200", "/actions/?outcome=waiting"):
        phone.goto(product.desk + address)
        seen: dict = {}
        while True:
            rows = "li.row[id^=action-]:has(.row-code)"  # calls of other tools, which other tests leave, have none
            ids = phone.locator(rows).evaluate_all("rows => rows.map(row => row.id.slice(7))")
            shown = decoded(phone, f"{rows} .row-title"), decoded(phone, f"{rows} .row-code")
            seen |= dict(zip(ids, zip(*shown, strict=True), strict=True))
            older = phone.get_by_role("link", name="Older")
            if not older.count():
                break
            with phone.expect_navigation():
                older.click()
        expected = {pk: (title.encode(), cut(PUSH + text, MAX_ROW_LINE)) for pk, (title, text) in titles(asked).items()}
        # Approvals shows the first ones only; History has all of them.
        assert {pk: seen[pk] for pk in expected if pk in seen} == {pk: expected[pk] for pk in expected if pk in seen}
        assert len(seen.keys() & expected.keys()) >= (len(expected) if "actions" in address else 40), address


def test_one_card_with_every_text(product, phone, token):
    arguments = {f"a{number:02}": text for number, text in enumerate(TEXTS)}
    body = {"tool": "mcp__probe__say", "arguments": arguments, "mode": "gate", "reasoning": "\n".join(TEXTS)[:3900]}
    answer = product.post("/api/v1/actions", token, body)
    assert answer.status == 201, answer.text
    phone.goto(f"{product.desk}/actions/{answer.json['id']}/")
    long = {name: text for name, text in arguments.items() if len(text) > 120 or "\n" in text}
    assert decoded(phone, ".call .text.exact") == []  # so many short arguments are one structure, in JSON
    heads = phone.locator(".call .code-head > span:first-child").all_inner_texts()
    blocks = dict(zip(heads, decoded(phone, ".call .code:has(.code-head)", ".exact"), strict=True))
    together = json.loads(blocks.pop("mcp__probe__say"))
    assert together == {name: text for name, text in arguments.items() if name not in long}
    assert blocks == {name: text.encode() for name, text in long.items()}
    assert decoded(phone, ".said.exact") == [body["reasoning"].replace("\0", "␀").encode()]


@pytest.mark.parametrize(
    "number", [n for n, text in enumerate(COMMANDS) if len(PUSH + text) > 5000 or text.count("\n") > 40]
)
def test_long_ones_are_read_to_their_end_before_a_yes(product, phone, asked, number):
    text = COMMANDS[number]
    phone.goto(f"{product.desk}/actions/{asked[text]['id']}/")
    assert decoded(phone, ".call > [data-attest] > .code:first-child", ".exact") == [(PUSH + text).encode()]
    phone.wait_for_selector("[data-resting]", state="detached")
    approve = phone.get_by_role("button", name="Approve…")
    expect(approve).to_have_attribute("aria-disabled", "true")
    approve.dispatch_event("click")  # a click of Playwright's scrolls first, and so reads a fold of blank lines alone
    expect(phone.get_by_role("button", name="Confirm: approve")).to_have_count(0)
    for fold in phone.locator("details[data-must-read]").all():
        fold.locator("summary").first.click()
        fold.locator(".fold-end").scroll_into_view_if_needed()
    expect(approve).not_to_have_attribute("aria-disabled", "true")


def test_the_log_tells_titles_as_they_are(product, phone, asked):
    phone.goto(f"{product.desk}/log/?verb=action.submitted&actor=display-agent")
    rows = decoded(phone, ".log-more")
    expected = [action["title"].encode() for action in asked.values()]
    assert [title for title in expected if title not in rows] == []


# Workspaces ----------------------------------------------------------------------------------------------------------


def test_lines_of_a_difference_and_of_a_file(product, phone, token, workspace):
    whole = b"\n".join(raw(payload) for payload in PAYLOADS if b"\0" not in raw(payload))
    for name, body in (("all.txt", whole + b"\n"), ("nul.txt", b"\xff\xfe\x00\x01<script>alert(1)</script>")):
        answer = product.call("PUT", f"/api/v1/workspaces/display/files/{name}", token, body)
        assert answer.status in (200, 201, 204), answer.text
    phone.goto(f"{product.desk}/w/main/display/changes/?from=1&to=live&path=all.txt")
    lines = decoded(phone, ".diff:has(.diff-path) .diff-unified tr.added td.line")
    assert b"\n".join(lines) == whole
    phone.goto(f"{product.desk}/w/main/display/changes/?from=1&to=live&path=nul.txt")
    expect(phone.locator(".diff", has_text="nul.txt")).to_contain_text("Binary file.")
    phone.goto(f"{product.desk}/w/main/display/files/?path=all.txt")
    lines = decoded(phone, "ol.numbered li code.exact, pre code.exact")
    assert b"\n".join(lines) == whole


def test_names_of_files(product, phone, workspace):
    names = sorted({raw(p)[:200] for p in PAYLOADS if raw(p) and not set(b"/\0") & set(raw(p)[:200])} - {b".", b".."})
    folder = workspace / "names"
    folder.mkdir()
    for name in names:
        with open(bytes(folder) + b"/" + name, "wb"):
            pass
    phone.goto(f"{product.desk}/w/main/display/files/?path=names")
    assert sorted(decoded(phone, ".file-rows .exact")) == names
    phone.goto(f"{product.desk}/w/main/display/changes/?from=1&to=live")
    listed = decoded(phone, ".file-list code")
    assert [name for name in names if name not in listed] == []  # below their folder
    shutil.rmtree(folder)


def test_commands_in_the_list_on_the_timeline_and_in_the_log(product, phone, token, workspace):
    shown = {}
    for text in COMMANDS:
        answer = product.post("/api/v1/workspaces/display/commands", token, {"argv": ["true", text]})
        assert answer.status in (200, 201, 202), answer.text
        shown[answer.json["id"]] = f"true {text}"
    for address, count in (("checks/", 160), ("", 120)):
        phone.goto(f"{product.desk}/w/main/display/{address}")
        selector = "li.row[id^=command-] .row-title code"
        ids = phone.locator("li.row[id^=command-]").evaluate_all("rows => rows.map(row => row.id.slice(8))")
        found = dict(zip(ids, decoded(phone, selector), strict=True))
        assert len(found) >= 45
        assert found == {pk: cut(shown[pk], count) for pk in found}
    phone.goto(f"{product.desk}/log/?verb=command.asked&workspace=display")
    rows = decoded(phone, ".log-more")
    expected = [f"command: {text[:500]}"[:300].encode() for text in shown.values()]
    assert [text for text in expected if text not in rows] == []
    longest = max(shown, key=lambda pk: len(shown[pk]))
    phone.goto(f"{product.desk}/w/main/display/commands/{longest}/")
    assert decoded(phone, "main > .code", ".exact")[:1] == [shown[longest].encode()]


def test_a_terminal_names_nothing_but_itself(product, phone, token, workspace):
    """Programs may ask for another title, the clipboard or a link: none of it happens."""
    safe = "".join(text.replace("\x1b", "").replace("\x07", "") for text in COMMANDS if len(text) < 200)
    script = 'printf \'\\033]0;%s\\007\\033]2;%s\\007\\033]52;c;Y3VybA==\\007shown\' "$1" "$1"; sleep 2'
    argv = ["bash", "-c", script, "probe", safe]
    answer = product.post("/api/v1/workspaces/display/terminals", token, {"argv": argv})
    assert answer.status == 201, answer.text
    phone.goto(f"{product.desk}/w/main/display/terminals/")
    [name] = decoded(phone, f"#terminal-{answer.json['id']} .row-title code")
    assert name.decode().startswith("bash -c ")
    phone.goto(f"{product.desk}/w/main/display/terminals/{urllib.parse.quote(answer.json['id'])}/")
    expect(phone.locator("#terminal-state")).to_contain_text("Exited")
    assert re.sub(r"^\(\d+\) ", "", phone.title()) == "Terminal in display · Handrail"  # without the count of approvals
    assert phone.evaluate("window.violations") == []

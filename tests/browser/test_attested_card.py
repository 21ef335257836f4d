"""What the page rendered of a call is read back out of it, kept with the approval, and fits the bytes of the call."""

import time

import pytest

from handrail_verify import card

from .conftest import settle

HOSTILE = "push origin \u202egnihton\u202c to ma\u200bin\u00a0now"
ARABIC = "\u0645\u0631\u062d\u0628\u0627"
# tool, arguments, and how many values they hold
CALLS = {
    "a command": ("Bash", {"command": "git push origin main", "description": "Push it"}, 1),
    "hidden characters": ("Bash", {"command": f"git {HOSTILE} && echo '{ARABIC}'\t# tab\n\n\n# end"}, 1),
    "many blanks and lines": ("Bash", {"command": f"git push origin main{' ' * 60}x{chr(10) * 30}true"}, 1),
    "several commands": ("Bash", {"command": "git push origin a && rm -rf build; curl https://example.org", "n": 7}, 2),
    "digits": ("mcp__bank__pay", {"a": 1e21, "cents": 100, "share": 0.1, "to": "007", "ok": True, "x": None}, 6),
    "texts like values": ("mcp__a__b", {"one": "1", "quoted": '"x"', "blank": " a ", "none": "", "dash": "–"}, 5),
    "short lists": ("mcp__a__b", {"tags": ["a", "b, c", "1", 2], "at": {"x y": "1", "n": 2.50}, "e": []}, 7),
    "nested": ("mcp__a__b", {"deep": {"a": [{"b": {"c": ["x" * 90, '\\"', "\n"]}}], "e": {}, "f": [[]]}}, 5),
    "rows": ("mcp__a__load", {"rows": [{"id": n, "name": f'n"{n}', "more": HOSTILE} for n in range(20)]}, 60),
    "rows with gaps": ("mcp__a__load", {"rows": [{"id": n} | ({"x": "–"} if n % 2 else {}) for n in range(12)]}, 18),
    "many arguments": ("mcp__a__b", {f"name-{n}": f"value {n}" for n in range(30)}, 30),
    "a long text": ("mcp__a__b", {"text": "\n".join(f"line {n} {HOSTILE}" for n in range(300))}, 1),
}


@pytest.fixture(params=["phone"])
def size(request):
    return request.param


@pytest.fixture(scope="module")
def lead(product):
    return product.person_token("lena", "lead", "browser")


@pytest.fixture
def approve(product, token, person):
    """`approve(tool, arguments)`: the id of an action that was approved on its page, read to its end or not."""

    def approved(tool, arguments, *, reads=True, script=""):
        page = person("rita")
        page.add_init_script(script)
        body = {"tool": tool, "arguments": arguments, "session": f"s{time.time()}"}
        action = product.post("/api/v1/actions", token, body).json
        page.goto(f"{product.desk}/actions/{action['id']}/")
        settle(page)
        if reads:
            _read(page)
        page.get_by_role("button", name="Approve…").click()
        settle(page)
        page.get_by_role("button", name="Confirm: approve").click()
        for _ in range(100):
            if product.get(f"/api/v1/actions/{action['id']}", token).json["status"] != "pending":
                break
            page.wait_for_timeout(50)
        return action["id"]

    return approved


def _read(page):
    for end in page.locator("#card .code-end").all():
        end.click()
        page.wait_for_timeout(100)
    page.evaluate("scrollTo(0, 0)")
    for _ in range(200):
        page.mouse.move(190, 300)
        page.mouse.wheel(0, 300)
        page.wait_for_timeout(15)
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 2"):
            break


def approval(product, lead, action) -> dict:
    """Return the data of the event of its approval."""
    cursor, found = 0, []
    while page := product.get(f"/api/v1/events?after={cursor}&limit=1000", lead).json["events"]:
        found += [event for event in page if event["subject"]["id"] == action and event["verb"] == "action.approved"]
        cursor = page[-1]["id"]
    [event] = found
    return event["data"]


@pytest.mark.parametrize("name", CALLS)
def test_every_value_is_read_back_out_of_the_page(product, token, lead, approve, name):
    tool, arguments, count = CALLS[name]
    action = approve(tool, arguments)
    data = approval(product, lead, action)
    statement = data["rendered"]
    assert "rendered_faults" not in data, data["rendered_faults"]
    assert (statement["count"], statement["read"], statement["call"]) == (count, count, data["digest"])
    [decision] = product.get(f"/api/v1/actions/{action}", token).json["decisions"]
    assert decision["rendered_digest"] == data["rendered_digest"] == card.digest_of(statement)


def test_a_changed_page_is_noted(product, lead, approve):
    action = approve("mcp__bank__transfer", {"amount": 100, "to": f"shop {time.time()}"}, script=CHANGES_A_DIGIT)
    data = approval(product, lead, action)
    assert data["rendered_faults"] == ["The page did not show exactly the values of the call."]


CHANGES_A_DIGIT = """
addEventListener("DOMContentLoaded", () => {
  for (const shown of document.querySelectorAll("[data-values]")) {
    if (shown.textContent === "100") shown.textContent = "1";
  }
});
"""

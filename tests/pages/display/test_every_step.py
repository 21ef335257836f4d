"""No page of an action, step of its decision or list has a hidden character as text, wherever an agent put it."""

from html.parser import HTMLParser

import pytest

from approvals.models import Action
from dashboard.database import clock

from ..conftest import tight

HIDDEN = "\u200b\u202e"
COMMAND = f"git push --force origin ma{HIDDEN}in && rm -rf bu{HIDDEN}ild"
CALLS = {
    "command": ("Bash", {"command": COMMAND, "description": f"It is do{HIDDEN}ne"}),
    "tool": ("mcp__shop__refund", {f"char{HIDDEN}ge": f"ch{HIDDEN}_1"}),
    "file": ("Write", {"file_path": f"/workspace/.github/workflows/c{HIDDEN}i.yml", "content": f"on: pu{HIDDEN}sh\n"}),
    "plan": ("ExitPlanMode", {"plan": f"# Ti{HIDDEN}dy\n\n1. re{HIDDEN}move"}),
    "question": (
        "AskUserQuestion",
        {
            "questions": [
                {"question": f"Whi{HIDDEN}ch?", "header": f"B{HIDDEN}", "options": [{"label": f"ma{HIDDEN}in"}]}
            ]
        },
    ),
}
STEPS = ("", "approve/", "deny/", "ask/", "first/", "edit/", "edit/?as=json", "allow/", "changes/", "evidence/")
LISTS = ("/", "/waiting/", "/actions/", "/log/", "/agents/", "/search/?q=git", "/stop/", "/policy/")


class _Text(HTMLParser):
    """The text of a page but for what fields hold, which has to be the exact value."""

    def __init__(self, page: str):
        super().__init__()
        self.field, self.found = 0, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.field += tag == "textarea"

    def handle_endtag(self, tag):
        self.field -= tag == "textarea"

    def handle_data(self, data):
        if not self.field:
            self.found.append(data)


def hidden_in(client, address) -> list[str]:
    response = client.get(address, follow=True)
    assert response.status_code == 200, address
    return [text for text in _Text(response.content.decode()).found if set(HIDDEN) & set(text)]


@pytest.fixture(params=CALLS)
def asked(request, ask, workspace):
    tool, arguments = CALLS[request.param]
    session, reasoning = f"ses{HIDDEN}sion", f"bec{HIDDEN}ause"
    return ask(arguments, tool=tool, workspace=workspace, session=session, reasoning=reasoning)


def test_a_card_its_steps_and_the_lists(asked, lena, browser_of):
    client = browser_of(lena)
    addresses = [f"/actions/{asked.pk}/{step}" for step in STEPS] + list(LISTS)
    addresses += [f"/agents/{asked.agent_id}/talk/", f"/waiting/alike/{asked.pk}/"]
    found = {address: hidden_in(client, address) for address in addresses}
    assert {address: texts for address, texts in found.items() if texts} == {}


def test_after_the_answer(asked, ask, decide, lena, bob, browser_of, workspace):
    client = browser_of(bob)
    answer = client.post(f"/actions/{asked.pk}/deny/", {"digest": asked.digest, "comment": "no"}, follow=True)
    assert [text for text in _Text(answer.content.decode()).found if set(HIDDEN) & set(text)] == []
    Action.objects.filter(pk=asked.pk).update(agent_seen_at=clock.now())
    tool, arguments = next(call for call in CALLS.values() if call[0] == asked.tool)
    again = ask(arguments | {"more": f"mo{HIDDEN}re"}, tool=tool, workspace=workspace, session=asked.session)
    for action in (asked, again):
        assert hidden_in(client, f"/actions/{action.pk}/") == []
    late = client.post(f"/actions/{asked.pk}/approve/", {"digest": asked.digest})
    assert late.status_code == (422 if asked.tool == "AskUserQuestion" else 409)
    assert [text for text in _Text(tight(late.content.decode())).found if set(HIDDEN) & set(text)] == []

"""A list that is narrowed to something that is not there shows nothing, or says so: never everything, and no error."""

import json
import uuid

import pytest

from approvals.models import AgentSession, Task
from dashboard.database import clock
from dashboard.urls import api
from workspaces.models import Artifact, Lesson

from .conftest import PUSH

WRONG = ["nonsense", str(uuid.UUID(int=1)), "None", "0", "a%00b"]
# {list: what it is narrowed by}
PAGES = {
    "/waiting/": ["kind", "workspace", "task", "agent"],
    "/actions/": ["outcome", "agent", "workspace", "tier", "undo", "person", "rule"],
    "/workspaces/": ["label", "owner", "agent", "environment", "driver", "fork_of"],
    "/artifacts/": ["repository", "key"],
    "/lessons/": ["repository", "state"],
    "/conversations/": ["agent"],
    "/log/": ["verb", "actor", "workspace", "subject"],
    "/tokens/": ["team", "kind"],
    "/search/?q=git&kind=actions": ["workspace", "agent", "person"],
}
# Parameters of the API that narrow a list, and those that say which part of it is read, and how.
NARROW = {
    *("workspace", "agent", "person", "user", "label", "owner", "environment", "driver", "fork_of", "repository"),
    *("name", "status", "tier", "undo", "state", "kind", "source", "session"),
}
READ = {
    *("q", "since", "until", "from", "to", "at", "on", "after", "before", "cursor", "limit", "wait", "sort", "format"),
    *("quiet_days", "changed", "trashed", "looked"),
}
NEEDED = {"q": "git", "since": "2026-01-01T00:00:00Z", "to": "1"}
LISTS = ["actions", "artifacts", "events", "lessons", "search", "sessions", "tasks", "tokens", "workspaces"]


@pytest.fixture
def filled(ask, workspace, team, agent, alice):
    """{list: a text that is on its page only if a row is}; each list has a row."""
    action, at = ask(PUSH, workspace=workspace), clock.now()
    Artifact.objects.create(
        team=team, workspace=workspace, key=workspace.key, snapshot_number=1, name="weekly-report", created_at=at
    )
    lesson = Lesson.objects.create(
        team=team, repository="git.example/shop", number=1, text="Lint it", sha256="", created_at=at
    )
    AgentSession.objects.create(
        team=team, agent=agent, dialect="claude-code", native_id="s", title="Mend totals", started_at=at, last_at=at
    )
    Task.objects.create(
        team=team, title="t", text="t", source="ticket", environment="default", created_at=at, changed_at=at
    )
    link = f"/actions/{action.pk}/"
    return {
        "/waiting/": link,
        "/actions/": f'id="action-{action.pk}"',
        "/workspaces/": f"/w/{team.slug}/{workspace.key}/",
        "/artifacts/": "weekly-report",
        "/lessons/": f"/lessons/{lesson.pk}/",
        "/conversations/": "Mend totals",
        "/log/": f"A-{action.number}<",
        "/tokens/": "/end/",
        "/search/?q=git&kind=actions": link,
    }


def test_a_page_narrowed_to_what_is_not_there_shows_no_row(filled, alice, browser_of):
    browser, wrong = browser_of(alice), []
    for page, names in PAGES.items():
        assert filled[page] in main(browser.get(page)), page
        for address in (f"{page}{'&' if '?' in page else '?'}{name}={value}" for name in names for value in WRONG):
            answer = browser.get(address)
            if answer.status_code != 404 and (answer.status_code != 200 or filled[page] in main(answer)):
                wrong.append((address, answer.status_code))
    assert wrong == []


def main(answer) -> str:
    """Return what is between the page's head and its footer."""
    return answer.content.decode().partition("<main")[2].partition("</main>")[0]


def test_tasks_of_an_agent_that_is_none_are_no_page(alice, browser_of):
    browser = browser_of(alice)
    assert {browser.get(f"/tasks/?agent={value}").status_code for value in WRONG} == {404}


def test_a_list_of_the_api_narrowed_to_what_is_not_there_is_empty_or_refused(filled, alice, client, token_of):
    headers, wrong, full = {"Authorization": f"Bearer {token_of(alice)}"}, [], []
    described = json.loads(json.dumps(api.get_openapi_schema(path_prefix=""), default=str))["paths"]
    for path, operation in ((path, row["get"]) for path, row in described.items() if "get" in row and "{" not in path):
        parameters = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
        names = {each["name"] for each in parameters}
        assert names <= NARROW | READ, path
        needed = "&".join(f"{each['name']}={NEEDED[each['name']]}" for each in parameters if each.get("required"))
        if names & NARROW and has_rows(client.get(f"/api/v1{path}?{needed}", headers=headers)):
            full.append(path.strip("/"))
        for address in (f"{path}?{needed}&{name}={value}" for name in names & NARROW for value in WRONG):
            answer = client.get(f"/api/v1{address}", headers=headers)
            if answer.status_code >= 500 or has_rows(answer):
                wrong.append((address, answer.status_code))
    assert wrong == []
    assert sorted(set(full) & set(LISTS)) == LISTS


def has_rows(answer) -> bool:
    return answer.status_code == 200 and any(rows for rows in answer.json().values() if isinstance(rows, list))

"""The navigation: nine entries in one order on phone and desktop, and the pages that stand below them."""

from typing import NamedTuple

from django.utils.translation import gettext_lazy


class Page(NamedTuple):
    """A page that is always one tap away; `name` is also the name of its icon."""

    name: str
    path: str
    label: str

    @property
    def icon(self) -> str:
        return self.name


HISTORY = Page("history", "/actions/", gettext_lazy("History"))
WORKSPACES = Page("workspaces", "/workspaces/", gettext_lazy("Workspaces"))
TASKS = Page("tasks", "/tasks/", gettext_lazy("Tasks"))
AGENTS = Page("agents", "/agents/", gettext_lazy("Agents"))
SET_UP = Page("set-up", "/set-up/", gettext_lazy("Set-up"))
ENTRIES = [
    Page("desk", "/", gettext_lazy("Desk")),
    Page("waiting", "/waiting/", gettext_lazy("Approvals")),
    TASKS,
    WORKSPACES,
    AGENTS,
    HISTORY,
    Page("policy", "/policy/", gettext_lazy("Policy")),
    SET_UP,
    Page("me", "/me/", gettext_lazy("Me")),
]
STOP = Page("stop", "/stop/", gettext_lazy("Stop everything"))
ON_THE_BAR = ("desk", "waiting", "workspaces")  # of a phone, beside More

# Pages that stand beside each other as tabs, below the entry that is the first of them.
TABS = [
    [TASKS, Page("agent-runs", "/agent-runs/", gettext_lazy("Agent runs"))],
    [
        WORKSPACES,
        Page("lessons", "/lessons/", gettext_lazy("Lessons")),
        Page("artifacts", "/artifacts/", gettext_lazy("Artifacts")),
    ],
    [AGENTS, Page("conversations", "/conversations/", gettext_lazy("Conversations"))],
    [
        HISTORY,
        Page("log", "/log/", gettext_lazy("Log")),
        Page("measures", "/measures/", gettext_lazy("Measures")),
        Page("oversight", "/oversight/", gettext_lazy("Oversight")),
    ],
]
IN_SET_UP = ("environments", "secrets", "schedules", "connect", "team", "teams", "tokens", "storage", "status")
# What pages call themselves in their context (`nav`), and the entry that they stand below, if they are none themselves.
BELOW = {page.name: tabs[0].name for tabs in TABS for page in tabs} | dict.fromkeys(IN_SET_UP, SET_UP.name)
BELOW |= {"log-targets": SET_UP.name, "search": ENTRIES[0].name}
# Beginnings of addresses, for pages that say nothing of themselves, such as a question before something is deleted.
ADDRESSES = {page.path: page.name for page in [*ENTRIES[1:], STOP]}
ADDRESSES |= {page.path: tabs[0].name for tabs in TABS for page in tabs}
ADDRESSES |= {f"/{name}/": SET_UP.name for name in IN_SET_UP} | {"/w/": WORKSPACES.name, "/accounts/": "me"}


def entry_of(nav: str, path: str = "") -> str:
    """Return the name of the entry that is current on a page with this `nav`, or at this path if it has none.

    "more" and "stop" are their own; the Desk is for all that stands nowhere else.
    """
    if nav:
        return BELOW.get(nav, nav)
    return next((name for begin, name in ADDRESSES.items() if path.startswith(begin)), ENTRIES[0].name)


def tabs_at(path: str) -> list[Page]:
    """Return the pages that stand beside the one at this path as tabs; none beside any other page."""
    return next((tabs for tabs in TABS if any(page.path == path for page in tabs)), [])

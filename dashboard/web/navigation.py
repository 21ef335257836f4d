"""The pages of the navigation, in one order everywhere: phone bar, "More", desktop rail."""

from typing import NamedTuple

from django.utils.translation import gettext_lazy


class Page(NamedTuple):
    """A page in the navigation; `name` is also the name of its icon."""

    name: str
    path: str
    label: str

    @property
    def icon(self) -> str:
        return self.name


class Pages(NamedTuple):
    first: list
    rest: list

    @property
    def all(self) -> list:
        return self.first + self.rest

    @property
    def rest_names(self) -> list:
        return [page.name for page in self.rest]


FIRST = [
    Page("desk", "/", gettext_lazy("Desk")),
    Page("waiting", "/waiting/", gettext_lazy("Approvals")),
    Page("workspaces", "/workspaces/", gettext_lazy("Workspaces")),
]
REST = [
    Page("agents", "/agents/", gettext_lazy("Agents")),
    Page("agent-runs", "/agent-runs/", gettext_lazy("Agent runs")),
    Page("history", "/actions/", gettext_lazy("History")),
    Page("log", "/log/", gettext_lazy("Log")),
    Page("policy", "/policy/", gettext_lazy("Policy")),
    Page("measures", "/measures/", gettext_lazy("Measures")),
    Page("lessons", "/lessons/", gettext_lazy("Lessons")),
    Page("connect", "/connect/", gettext_lazy("Connect")),
    Page("team", "/team/", gettext_lazy("Team")),
    Page("me", "/me/", gettext_lazy("Me")),
    # Set-up begins here.
    Page("environments", "/environments/", gettext_lazy("Environments")),
    Page("schedules", "/schedules/", gettext_lazy("Schedules")),
    Page("artifacts", "/artifacts/", gettext_lazy("Artifacts")),
    Page("storage", "/storage/", gettext_lazy("Storage")),
    Page("status", "/status/", gettext_lazy("Status")),
    Page("stop", "/stop/", gettext_lazy("Stop everything")),
]

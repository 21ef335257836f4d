"""The form of a schedule."""

from datetime import time

from django import forms
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Team
from workspaces.models import CatchUp, Environment, JobKind, Schedule, Workspace
from workspaces.pages.forms import AS_CODE, CODE
from workspaces.provisioning import agent_programs
from workspaces.services import schedules
from workspaces.services.environments import to_choose_from

# How often, in words, and the cron fields after minute and hour.
OFTEN = [
    ("", gettext_lazy("At the times of the cron text below"), ""),
    ("day", gettext_lazy("Every day at …"), "* * *"),
    ("weekday", gettext_lazy("Monday to Friday at …"), "* * 1-5"),
    ("week", gettext_lazy("Every Monday at …"), "* * 1"),
    ("month", gettext_lazy("On the first of each month at …"), "1 * *"),
]
MAX_PLACES = 300  # workspaces in the list, those used last; a schedule's own is always among them


class ScheduleForm(forms.Form):
    """`team` and `wish()` are what services.schedules takes. A check or a command: the field that is filled says."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=80)
    often = forms.ChoiceField(
        label=gettext_lazy("When"), required=False, choices=[(value, words) for value, words, _ in OFTEN]
    )
    at = forms.TimeField(
        label=gettext_lazy("At"), required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    cron = forms.CharField(
        label=gettext_lazy("Or as cron text"),
        required=False,
        max_length=120,
        help_text=gettext_lazy(
            "Minute, hour, day of the month, month, day of the week. <code>0 3 * * *</code>: each day at 3:00; "
            "<code>*/15 * * * *</code>: every 15 minutes; <code>0 9 * * 1-5</code>: at 9:00 from Monday to Friday."
        ),
        widget=forms.TextInput(attrs=AS_CODE | {"placeholder": "0 3 * * *"}),
    )
    zone = forms.CharField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        help_text=gettext_lazy("Such as Europe/Berlin or UTC."),
        widget=forms.TextInput(attrs=AS_CODE),
    )
    place = forms.ChoiceField(label=gettext_lazy("Where"))
    command = forms.CharField(
        label=gettext_lazy("Command (bash, in /workspace)"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs=CODE | {"rows": 3}),
    )
    check = forms.CharField(
        label=gettext_lazy("Or a check of the environment"),
        required=False,
        max_length=80,
        help_text=gettext_lazy("Its name. It runs as the environment has it at that time."),
        widget=forms.TextInput(attrs=AS_CODE),
    )
    task = forms.CharField(
        label=gettext_lazy("Or a task for an agent"),
        required=False,
        max_length=50_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("The environment names the agents that Handrail starts, and their models."),
    )
    program = forms.ChoiceField(label=gettext_lazy("Which agent"), required=False)
    model = forms.CharField(
        label=gettext_lazy("Its model"),
        required=False,
        max_length=100,
        help_text=gettext_lazy("Empty: the first one that the environment names."),
        widget=forms.TextInput(attrs=AS_CODE),
    )
    budget_tokens = forms.IntegerField(
        label=gettext_lazy("Ask a person after so many tokens"), required=False, min_value=1
    )
    catch_up = forms.ChoiceField(
        label=gettext_lazy("Times at which Handrail did not run"),
        choices=CatchUp.choices,
        widget=forms.RadioSelect,
    )
    budget_minutes = forms.IntegerField(
        label=gettext_lazy("Ask a person after so many minutes"),
        required=False,
        min_value=1,
        max_value=schedules.MAX_MINUTES,
        help_text=gettext_lazy("The run goes on meanwhile. Empty: nobody is asked."),
    )
    keep = forms.IntegerField(label=gettext_lazy("Runs in the history"), min_value=1, max_value=schedules.MAX_KEEP)

    def __init__(self, data=None, *, caller, teams: list[Team], schedule: Schedule | None = None, place: str = ""):
        super().__init__(data, initial=_initial(schedule, place))
        self.caller, self.teams = caller, {team.pk: team for team in teams}
        self.environments: list[Environment] = []  # of the places
        self.places = dict(self._places(schedule))
        self.fields["place"].choices = self._choices()
        self.fields["program"].choices = agent_programs.choices(self.environments, also=self.initial["program"])

    def _places(self, schedule: Schedule | None):
        """Yield (value, (team, {workspace} or {environment}, label))."""
        rows = Workspace.objects.visible_to(self.caller).kept().filter(team__in=self.teams)
        rows = rows.select_related("environment")
        found = list(rows.order_by("-last_active_at", "key")[:MAX_PLACES])
        if schedule and schedule.workspace and schedule.workspace not in found:
            found.append(schedule.workspace)
        for each in sorted(found, key=lambda row: row.key):
            self.environments.append(each.environment)
            yield f"workspace:{each.team_id}:{each.key}", (each.team_id, {"workspace": each.key}, each.key)
        for each in to_choose_from(list(self.teams.values())):
            self.environments.append(each)
            yield f"environment:{each.team_id}:{each.name}", (each.team_id, {"environment": each.name}, each.name)

    def _choices(self):
        groups: dict = {"workspace": [], "environment": []}
        for value, (team_id, _, label) in self.places.items():
            of = f" · {self.teams[team_id].name}" if len(self.teams) > 1 else ""
            groups[value.partition(":")[0]].append((value, f"{label}{of}"))
        yield gettext("In a workspace"), groups["workspace"]
        yield gettext("In a new workspace each time, of an environment"), groups["environment"]

    def clean(self):
        cleaned = super().clean()
        self._clean_times(cleaned)
        if {"command", "check", "task"} <= set(cleaned):
            given = [name for name in ("command", "check", "task") if cleaned[name].strip()]
            if len(given) != 1:
                self.add_error("command", gettext("Give a command, the name of a check, or a task for an agent."))
        return cleaned

    def _clean_times(self, cleaned: dict):
        """Turn a choice in words into its cron text."""
        often, at = cleaned.pop("often", ""), cleaned.pop("at", None)
        days = next(days for value, _, days in OFTEN if value == often)
        if days and cleaned.get("cron"):
            self.add_error("cron", gettext("Choose when above, or write a cron text: not both."))
        elif days and at:
            cleaned["cron"] = f"{at.minute} {at.hour} {days}"
        elif days and "at" not in self.errors:
            self.add_error("at", gettext("Give the time of day."))
        elif not days and not cleaned.get("cron") and "cron" not in self.errors:
            self.add_error("cron", gettext("Choose when above, or write a cron text."))

    @property
    def team(self) -> Team:
        return self.teams[self.places[self.cleaned_data["place"]][0]]

    def wish(self) -> dict:
        cleaned = dict(self.cleaned_data)
        _, place, _ = self.places[cleaned.pop("place")]
        kind = JobKind.CHECK if cleaned["check"].strip() else JobKind.COMMAND
        kind = JobKind.AGENT if cleaned["task"].strip() else kind
        return {"workspace": "", "environment": ""} | place | cleaned | {"kind": kind.value}


def _in_words(cron: str) -> dict:
    """Return {often, at, cron} for a cron text that a choice says; {} for another one."""
    minute, hour, *rest = cron.split()
    often = next((value for value, _, days in OFTEN if days == " ".join(rest)), "")
    if not often or not (minute.isdecimal() and hour.isdecimal()):
        return {}
    return {"often": often, "at": time(int(hour), int(minute)), "cron": ""}


def _initial(schedule: Schedule | None, place: str) -> dict:
    if schedule is None:
        start = {
            "often": "day",
            "at": time(3),
            "zone": timezone.get_current_timezone_name(),
            "catch_up": CatchUp.SKIP,
            "keep": 100,
            "program": "",
        }
        return start | {"place": place}
    where = f"workspace:{schedule.team_id}:{schedule.workspace.key}" if schedule.workspace else ""
    same = ("name", "cron", "zone", "command", "catch_up", "budget_minutes", "keep")
    job = {name: schedule.agent_job.get(name) for name in schedules.AGENT_FIELDS}
    job["program"] = (job["program"] or "").partition("@")[0]
    return (
        {name: getattr(schedule, name) for name in same}
        | _in_words(schedule.cron)
        | job
        | {
            "check": schedule.check_name,
            "place": where or f"environment:{schedule.team_id}:{schedule.environment}",
        }
    )

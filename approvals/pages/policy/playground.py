"""Try a command on the Policy page: as which agent, with which label, when, and if it can be undone or is held."""

from django import forms
from django.utils.translation import gettext_lazy

from approvals.evaluation import duty, policies, workers
from approvals.pages.exact_field import CODE
from approvals.policy import PolicyError
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.models import Agent

MAX_TRIED = 20_000  # characters of a command
MAX_NAMES = 200
WORLD = {"cwd": "/workspace", "workspace_root": "/workspace"}


class TryForm(forms.Form):
    """The command, and what the conditions of the policy are asked about."""

    command = forms.CharField(
        label=gettext_lazy("Command"),
        max_length=MAX_TRIED,
        strip=False,
        widget=forms.Textarea(attrs=CODE | {"rows": 2}),
    )
    agent = forms.ChoiceField(label=gettext_lazy("As the agent"), required=False)
    label = forms.CharField(
        label=gettext_lazy("In a workspace with the label"),
        required=False,
        max_length=300,
        help_text=gettext_lazy("Such as team:payments."),
    )
    at = forms.DateTimeField(
        label=gettext_lazy("At the time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    undo = forms.ChoiceField(
        label=gettext_lazy("What no snapshot undoes"),
        required=False,
        choices=[
            ("", gettext_lazy("Not known yet")),
            ("outside", gettext_lazy("Can be undone outside")),
            ("not", gettext_lazy("Can't be undone")),
        ],
        help_text=gettext_lazy("A real call is judged before anybody knows, so the stricter rule counts."),
    )
    held = forms.BooleanField(label=gettext_lazy("The kernel holds it"), required=False)

    def __init__(self, data, scope: Scope):
        super().__init__(data, prefix="try")
        names = Agent.objects.filter(team=scope.team).order_by("name").values_list("name", flat=True)[:MAX_NAMES]
        self.fields["agent"].choices = [
            ("", gettext_lazy("an agent without rules of its own")),
            *((n, n) for n in names),
        ]
        self.scope = scope

    @property
    def context(self) -> dict:
        """The context for the policy; what is not chosen meets no condition."""
        said = self.cleaned_data
        key, _, value = said["label"].partition(":")
        found = {"only_stated": True, "environment": self.scope.name or "", "agent": said["agent"]}
        found |= {"labels": {key: value} if said["label"] else {}, "at": (said["at"] or clock.now()).isoformat()}
        found["on_duty"] = bool(duty.people_on_duty(self.scope.team, clock.now()))
        known = {"held": True} if said["held"] else {}
        return found | known | ({"undo": said["undo"]} if said["undo"] else {})

    def verdict(self, policy, floor):
        """Return the policy's verdict on the command; None if it cannot be evaluated."""
        try:
            policies.checked(policy)
            call = {"command": self.cleaned_data["command"]}
            return workers.classify("Bash", call, policy=policy, floor=floor, **WORLD, context=self.context)
        except (PolicyError, workers.Late):
            return None

"""Pages of the tasks that people give: the form of a new one, and a task with its attempts beside each other."""

from itertools import combinations
from urllib.parse import urlencode

from django import forms
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.agent_runs import attempts, requests
from approvals.agent_runs.code_host import mending
from approvals.models import Action, Task, TaskThread
from approvals.models.tasks import MAX_SOURCE, MAX_TITLE
from approvals.reports.standing import Standing, TaskStands, standing_of
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import (
    READ_OR_WRITE,
    ask_first,
    carry_out,
    is_confirmed,
    must,
    parameters,
    signed_in,
    take_form,
)
from workspaces import code_hosts
from workspaces.models import Environment
from workspaces.pages.operation_view import OperationView
from workspaces.provisioning import agent_programs
from workspaces.services import collisions, pull_requests
from workspaces.services.environments import to_choose_from

BY_HAND = "hand"
REVIEWED = "reviewer"  # `with` of the address of a form that has two agents and a reviewer
OPEN = "pull-request"  # `then` of a choice
MOST_ATTEMPTS = 3  # that the form offers
MOST_ENTRIES = 50  # comments and checks of its thread that the page of a task shows
MOST = 10  # tasks in a list of those that are open


def open_tasks(caller, most: int = MOST, **only) -> list[TaskStands]:
    """Return the newest tasks that are open, those that ask somebody first."""
    rows = Task.objects.visible_to(caller).filter(end="", **only).select_related("team", "asked_by").distinct()
    found = standing_of(rows.order_by("-created_at")[:most])
    return sorted(found, key=lambda stands: list(Standing).index(stands.state))


class NewTaskForm(forms.Form):
    """`wish()` is what `attempts.make` takes, `team()` whose task it is."""

    FIRST = ("title", "text", "place", "attempt_1", "attempt_2", "attempt_3", "reviewer")

    title = forms.CharField(label=gettext_lazy("Title"), max_length=MAX_TITLE)
    text = forms.CharField(
        label=gettext_lazy("Instructions"),
        required=False,
        max_length=requests.MAX_TASK,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text=gettext_lazy("Title and text are the prompt of each agent."),
    )
    place = forms.ChoiceField(label=gettext_lazy("Environment"))
    attempt_1 = forms.ChoiceField(label=gettext_lazy("First attempt"))
    attempt_2 = forms.ChoiceField(label=gettext_lazy("Second attempt"), required=False)
    attempt_3 = forms.ChoiceField(label=gettext_lazy("Third attempt"), required=False)
    reviewer = forms.ChoiceField(
        label=gettext_lazy("Reviewer"),
        required=False,
        help_text=gettext_lazy(
            "Comments on the lines of each attempt as drafts of yours. It works on a copy and merges nothing."
        ),
    )
    repository = forms.CharField(
        label=gettext_lazy("Repository"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Empty: that of the environment."),
    )
    base = forms.CharField(
        label=gettext_lazy("Branch, tag or commit"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("All attempts begin with the same commit of it. Empty: the default branch."),
    )
    source = forms.CharField(
        label=gettext_lazy("Ticket"),
        required=False,
        max_length=MAX_SOURCE,
        help_text=gettext_lazy("Its address or number. There is one task for each."),
    )
    minutes = forms.IntegerField(
        label=gettext_lazy("Minutes of work of each agent"),
        required=False,
        min_value=1,
        max_value=requests.MAX_MINUTES,
    )

    def __init__(self, data=None, *, teams: list[Team], initial=None):
        super().__init__(data, initial=initial)
        rows = to_choose_from(teams)
        self.environments: dict[str, Environment] = {f"{each.team.slug}/{each.name}": each for each in rows}
        several = len(teams) > 1
        words = {
            name: f"{each.name} · {each.team.name}" if several else each.name
            for name, each in self.environments.items()
        }
        self.fields["place"].choices = list(words.items())
        programs = [choice for choice in agent_programs.choices(self.environments.values()) if choice[0]]
        by_hand = (BY_HAND, gettext("By hand or over the API"))
        self.fields["attempt_1"].choices = [*programs, by_hand]
        for name in ("attempt_2", "attempt_3"):
            self.fields[name].choices = [("", gettext("None")), *programs, by_hand]
        self.fields["reviewer"].choices = [("", gettext("None")), *programs]
        self.programs = [name for name, _ in programs]

    def fill_in_reviewed(self):
        """Fill in two agents and a reviewer: the programs that the environments have, each at most once if possible."""
        if self.programs:
            chosen = (self.programs * 3)[:3]
            self.initial |= dict(zip(("attempt_1", "attempt_2", "reviewer"), chosen, strict=True))

    @property
    def first_fields(self) -> list:
        return [self[name] for name in self.FIRST]

    @property
    def more_fields(self) -> list:
        return [field for field in self.visible_fields() if field.name not in self.FIRST]

    @property
    def shows_more(self) -> bool:
        """Whether one of the fields that are folded is filled in or wrong."""
        return any(field.errors or field.value() for field in self.more_fields)

    def team(self) -> Team:
        return self.environments[self.cleaned_data["place"]].team

    def wish(self) -> dict:
        given = self.cleaned_data
        chosen = [given[f"attempt_{number}"] for number in range(1, MOST_ATTEMPTS + 1)]
        return {name: given[name] for name in ("title", "text", "repository", "base", "source")} | {
            "environment": self.environments[given["place"]].name,
            "attempts": [{"agent": "" if each == BY_HAND else each} for each in chosen if each],
            "budget": {"minutes": given["minutes"]},
            "reviewer": {"agent": given["reviewer"]},
        }


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("start_agents", team)]


@signed_in
@READ_OR_WRITE
def new(request):
    """Show the form of a new task, filled in by a link: title, text, repository, base, source, environment."""
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "start_agents", None)
    given = parameters(request, "title", "text", "repository", "base", "source", "place")
    form = NewTaskForm(
        request.POST or None, teams=teams, initial={name: value for name, value in given.items() if value}
    )
    if parameters(request, "with")["with"] == REVIEWED:
        form.fill_in_reviewed()
    if request.method != "POST":
        return _form_page(request, form)
    return take_form(
        request,
        form,
        lambda cleaned: attempts.make(form.team(), form.wish(), caller=request.caller),
        shown=lambda form: _form_page(request, form),
        then=lambda made: reverse("task", args=[made[0].pk]),
        at="title",
        otherwise=request.path,
        say=lambda made: "" if made[1] else gettext("There is a task of this ticket already. This is it."),
        keeps=True,
    )


def _form_page(request, form: NewTaskForm):
    return render(request, "approvals/task_new.html", {"nav": "tasks", "form": form})


def _find(request, pk) -> Task:
    try:
        return attempts.find(request.caller, pk)
    except Problem as problem:
        raise Http404(problem.detail) from None


@signed_in
@require_safe
def task(request, pk):
    """Show a task: its text, and its attempts beside each other."""
    found = _find(request, pk)
    stands = standing_of([found], live="X-Handrail-Refresh" not in request.headers)[0]
    thread = TaskThread.objects.filter(task=found).select_related("pull", "follower").first()
    _find_calls(stands)
    pairs = [(one, other, _beside(one, other)) for one, other in combinations(stands.kept, 2)]
    context = {
        "nav": "tasks",
        "task": found,
        "stands": stands,
        "pairs": pairs,
        "may_decide": request.caller.can("start_agents", found.team_id),
        "is_link": found.source.startswith(("https://", "http://")),
        "thread": thread,
        **_pull_request(stands),
        "has_host": code_hosts.repository_of(found.repository) is not None,
        "colliding": _colliding(stands),
        "may_rebase": request.caller.can("use_workspace", found.team_id),
        "entries": list(thread.entries.order_by("-pk")[:MOST_ENTRIES])[::-1] if thread else [],
    }
    return render(request, "approvals/task.html", context)


def _find_calls(stands: TaskStands):
    """Note in each attempt the call that a person answers next: that which expires first."""
    rows = Action.objects.pending().filter(workspace__in=[each.workspace for each in stands.attempts])
    found = dict(rows.order_by("-expires_at").values_list("workspace", "pk"))
    for each in stands.attempts:
        each.next_call = found.get(each.workspace.pk)


def _pull_request(stands: TaskStands) -> dict:
    """Return {pull, opening, is_opening, pushes_again}: the pull request of the chosen attempt, and its last push.

    `opening` is an OperationView, None without one; `pushes_again`: it failed, and is tried again. They are read from
    the workspace: its thread has a pull request only once the queue has read the code host.
    """
    if stands.chosen is None:
        return {"pull": stands.thread.pull if stands.thread else None, "opening": None}
    place = stands.chosen.workspace
    asked = pull_requests.newest_asked(place)
    seen = OperationView(asked) if asked else None
    is_opening = seen is not None and not seen.is_over
    again = stands.thread is not None and mending.pushes_again(stands.thread, place)
    pull = pull_requests.of(place).first()
    return {"pull": pull, "opening": seen, "is_opening": is_opening, "pushes_again": again}


def _colliding(stands: TaskStands) -> collisions.Colliding | None:
    """Return how the chosen attempt collides with other work; without one all that are kept."""
    if stands.task.end:
        return None
    found = [collisions.of_workspace(each.workspace) for each in ([stands.chosen] if stands.chosen else stands.kept)]
    order = list(dict.fromkeys(place for each in found for place in each.order))
    return collisions.Colliding([one for each in found for one in each.collisions], order)


def _beside(one, other) -> str:
    here = reverse("workspace-beside", args=[one.workspace.team.slug, one.workspace.key])
    return f"{here}?{urlencode({'with': other.workspace.key})}"


def _decide(request, pk, do, say: str, *given):
    found = _find(request, pk)
    must(request.caller, "start_agents", found.team_id)
    then = reverse("task", args=[pk])
    return carry_out(request, lambda: do(found, *given, caller=request.caller), then=then, say=say)


def _number(request) -> str:
    return parameters(request, "attempt")["attempt"]


@signed_in
@require_POST
def choose(request, pk):
    if parameters(request, "then")["then"] == OPEN:
        words = gettext("Chosen. Its pull request was asked for.")
        return _decide(request, pk, mending.choose_and_open, words, _number(request))
    words = gettext("Chosen. The other attempts are in the trash; Bring back restores them.")
    return _decide(request, pk, attempts.choose, words, _number(request))


@signed_in
@require_POST
def throw_away(request, pk):
    return _decide(request, pk, attempts.throw_away, gettext("Moved to the trash."), _number(request))


@signed_in
@require_POST
def bring_back(request, pk):
    words = gettext("Brought back from the trash.")
    return _decide(request, pk, attempts.bring_back, words, _number(request) or None)


@signed_in
@require_POST
def cancel(request, pk):
    found = _find(request, pk)
    must(request.caller, "start_agents", found.team_id)
    if not is_confirmed(request):
        says = gettext("The agents are stopped, and the workspaces of all attempts go to the trash.")
        words = {"title": str(found), "says": says, "verb": gettext("Cancel the task")}
        return ask_first(request, **words, back=reverse("task", args=[pk]))
    return _decide(request, pk, attempts.cancel, gettext("Cancelled. Bring back opens the task again."))


@signed_in
@require_POST
def open_pull_request(request, pk):
    is_open = TaskThread.objects.filter(task=pk, pull__isnull=False).exists()
    words = gettext("The push was asked for.") if is_open else gettext("The pull request was asked for.")
    return _decide(request, pk, mending.open_pull_request, words)


@signed_in
@require_POST
def enough(request, pk):
    return _decide(request, pk, mending.enough, gettext("The agent gets no more checks and comments."))


@signed_in
@require_POST
def follow(request, pk):
    return _decide(request, pk, mending.follow_again, gettext("Checks and comments go to the agent."))


@signed_in
@require_POST
def merged(request, pk):
    return _decide(request, pk, attempts.merged, gettext("Merged. The workspace is being archived."))

"""An agent's page: write to it, interrupt it, and see what it has got of both."""

from datetime import timedelta
from urllib.parse import urlencode

from django import forms
from django.db.models import Max, OuterRef, Subquery
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from approvals.actions import interrupts
from approvals.models import Action, AgentMessage, Interrupt
from approvals.sessions import messages
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.web.pages import READ_OR_WRITE, as_uuid, carry_out, must, parameters, signed_in, take_form
from dashboard.web.typed import given, keeps_typed

MAX_SHOWN = 30  # messages, the newest
MAX_INTERRUPTS = 5
MAX_SESSIONS = 8
SESSIONS_SINCE = timedelta(days=1)
MINUTES = {10: gettext_lazy("10 minutes"), 60: gettext_lazy("1 hour"), 480: gettext_lazy("8 hours")}


class MessageForm(forms.Form):
    """A message to an agent."""

    text = forms.CharField(
        label=gettext_lazy("Message"), max_length=messages.MAX_TEXT, widget=forms.Textarea(attrs={"rows": 3})
    )

    def __init__(self, data=None, *, session: str):
        super().__init__(data, auto_id="talk-%s")
        reads = (
            gettext("The agent reads it in your name with its next step.")
            if session
            else gettext("The agent reads it in your name with its next step, in whichever session comes next.")
        )
        again = gettext("An agent that has ended its turn gets it when somebody prompts it again. It approves nothing.")
        self.fields["text"].help_text = f"{reads} {again}"


@signed_in
@READ_OR_WRITE
@keeps_typed("text")
def talk(request, pk):
    """Show the agent's messages and interrupts, of one session or all; on POST send a message."""
    agent, session = _named(request, pk)
    if request.method == "POST":
        must(request.caller, "decide", agent.team_id)
        return take_form(
            request,
            MessageForm(request.POST, session=session),
            lambda fields: messages.send(agent, session=session, caller=request.caller, text=fields["text"]),
            shown=lambda form: _page(request, agent, session, form),
            then=_address(agent, session),
            at="text",
            say=gettext("Sent. It reaches the agent with its next step."),
        )
    return _page(request, agent, session, MessageForm(given(request) or None, session=session))


def _page(request, agent: Agent, session: str, form: MessageForm):
    context = {"nav": "agents", "form": form} | _shown(request.caller, agent, session)
    return render(request, "approvals/talk.html", context)


@signed_in
@require_POST
def interrupt(request, pk):
    agent, session = _named(request, pk)
    must(request.caller, "decide", agent.team_id)
    wish = parameters(request, "reason", "minutes")
    minutes = int(wish["minutes"]) if wish["minutes"] in map(str, MINUTES) else interrupts.DEFAULT_MINUTES
    caller, reason = request.caller, wish["reason"]
    return carry_out(
        request,
        lambda: interrupts.interrupt(agent, session=session, caller=caller, reason=reason, minutes=minutes),
        then=_address(agent, session),
        say=gettext("Interrupted. Its calls are refused now."),
    )


@signed_in
@require_POST
def go_on(request, pk):
    agent, session = _named(request, pk)
    must(request.caller, "decide", agent.team_id)
    found = get_object_or_404(Interrupt, agent=agent, pk=as_uuid(parameters(request, "interrupt")["interrupt"]))
    return carry_out(
        request,
        lambda: interrupts.lift(found, caller=request.caller),
        then=_address(agent, session),
        say=gettext("Lifted. Calls are judged again as before; what was cancelled or stopped stays so."),
    )


def _named(request, pk) -> tuple[Agent, str]:
    """Return the agent and the session, "" for all of them, that a request names. Http404."""
    agent = get_object_or_404(Agent.objects.visible_to(request.caller).select_related("team", "owner"), pk=pk)
    session = request.POST.get("session", request.GET.get("session", ""))
    session = session.replace("\0", "\ufffd")[: messages.MAX_SESSION]
    return agent, session


def _address(agent: Agent, session: str) -> str:
    query = f"?{urlencode({'session': session})}" if session else ""
    return reverse("agent-talk", args=[agent.pk]) + query


def _shown(caller, agent: Agent, session: str) -> dict:
    now = clock.now()
    of_session = {"session__in": {"", session}} if session else {}
    said = AgentMessage.objects.filter(agent=agent, **of_session).select_related("user").order_by("-at", "-pk")
    stops = Interrupt.objects.filter(agent=agent, **of_session).select_related("user", "lifted_by").order_by("-at")
    active = list(stops.filter(lifted_at=None, until__gt=now)[:MAX_INTERRUPTS])
    past = list(stops.exclude(pk__in=[each.pk for each in active])[:MAX_INTERRUPTS])
    _name_actions([*active, *past])
    return {
        "agent": agent,
        "session": session,
        "sessions": _sessions(agent, now),
        "said": list(said[:MAX_SHOWN]),
        "active": active,
        "past": past,
        "is_held": any(each.session in ("", session) for each in active),
        "may_talk": caller.can("decide", agent.team_id),
        "minutes": MINUTES,
        "default_minutes": interrupts.DEFAULT_MINUTES,
    } | interrupts.preview(agent, session)


def _sessions(agent: Agent, now) -> list[dict]:
    """Return the agent's sessions of the last day, the newest first: [{session, last, newest, action}]."""
    recent = Action.objects.filter(agent=agent, created_at__gt=now - SESSIONS_SINCE).exclude(session="")
    newest = Action.objects.filter(agent=agent, session=OuterRef("session")).order_by("-created_at")
    found = recent.values("session").annotate(last=Max("created_at"), newest=Subquery(newest.values("pk")[:1]))
    sessions = list(found.order_by("-last")[:MAX_SESSIONS])
    actions = Action.objects.in_bulk([each["newest"] for each in sessions])
    return [each | {"action": actions[each["newest"]]} for each in sessions if each["newest"] in actions]


def _name_actions(stops: list[Interrupt]):
    """Give each call in what the interrupts did its action, whose title is said in the reader's language."""
    calls = [each for stop in stops for part in ("denied", "running") for each in stop.done.get(part, ())]
    found = Action.objects.in_bulk([each["id"] for each in calls]) if calls else {}
    for each in calls:
        each["action"] = found.get(as_uuid(each["id"]))

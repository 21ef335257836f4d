"""Drain a host, give it work again, or say that it is lost, from the Status page; each asks first."""

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, ask_first, carry_out, signed_in
from workspaces.host import place
from workspaces.lifecycle import lost_hosts
from workspaces.models import Runner
from workspaces.services import hosts
from workspaces.services.hosts import moving

MOST_NAMED = 50  # workspaces


@dataclass(frozen=True)
class Word:
    """What can be said of a host; `lines` tell what becomes of its workspaces."""

    title: str
    says: str
    verb: str
    say: Callable  # (runner, actor)
    lines: Callable | None = None  # of a workspace


def _if_drained(workspace) -> str:
    words = moving.why_it_stays(workspace)
    if words:
        return gettext("stays: it %(why)s") % {"why": words}
    return gettext("moves once it is idle")


def _if_lost(workspace) -> str:
    if workspace.own_folder or workspace.head is None or not place.shares_store():
        return gettext("its files are lost")
    if lost_hosts.lives_on(workspace) is not None:
        return gettext("goes on under another host; its commands and terminals end")
    at = clock.in_utc(workspace.head.created_at)
    return gettext("comes back from snapshot %(number)s of %(at)s") % {"number": workspace.head.number, "at": at}


WORDS = {
    "drain": Word(
        title=gettext_lazy("Drain %(host)s?"),
        says=gettext_lazy("It gets no new workspaces. Those that are there move to other hosts; their programs end."),
        verb=gettext_lazy("Drain"),
        say=lambda runner, actor: hosts.drain(runner, by=actor),
        lines=_if_drained,
    ),
    "undrain": Word(
        title=gettext_lazy("Give %(host)s new workspaces again?"),
        says=gettext_lazy("What has moved away stays where it is."),
        verb=gettext_lazy("Undrain"),
        say=lambda runner, actor: hosts.undrain(runner, by=actor),
    ),
    "lost": Word(
        title=gettext_lazy("Declare %(host)s lost?"),
        says=gettext_lazy(
            "Its workspaces come back on other hosts from their newest snapshots, without what was changed after. "
            "What had begun there is unclear, and is not run again. If the host comes back, its files are kept aside."
        ),
        verb=gettext_lazy("Declare lost"),
        say=lambda runner, actor: hosts.declare_lost(runner, by=actor),
        lines=_if_lost,
    ),
}


@signed_in
@READ_OR_WRITE
def say(request, host, word):
    """Ask before a word is said of a host; a POST says it. For superusers."""
    if not hosts.may_manage(request.caller):
        raise PermissionDenied("manage_hosts")
    said, back = WORDS.get(word), f"{reverse('status')}#hosts"
    if said is None:
        raise Http404(word)
    try:
        runner = hosts.find(host)
    except Problem as problem:
        raise Http404(problem.detail) from None
    if request.method != "POST":
        title = said.title % {"host": runner.host}
        return ask_first(
            request, title=title, says=str(said.says), verb=str(said.verb), back=back, text=_lines(runner, said)
        )
    return carry_out(request, lambda: said.say(runner, request.caller.actor), then=back)


def _lines(runner: Runner, said: Word) -> str:
    """Return a line for each workspace on the host, with what becomes of it."""
    if said.lines is None:
        return ""
    found = list(moving.at(runner)[: MOST_NAMED + 1])
    lines = [f"{each.team.slug}/{each.key}: {said.lines(each)}" for each in found[:MOST_NAMED]]
    return "\n".join([*lines, *([gettext("… and more")] if len(found) > MOST_NAMED else [])])

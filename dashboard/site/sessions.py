"""Where a person is signed in, on the page Me; how an admin ends the sessions of somebody; and what a session lacks."""

from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from approvals.notify.devices import forget_session
from dashboard.models import Membership
from dashboard.people import passkeys, second_factor_rule, sessions
from dashboard.people.access import caller_of
from dashboard.site import second_factor
from dashboard.web.pages import carry_out, must, signed_in


@signed_in
@require_POST
def end_session(request, pk):
    """Sign one browser of the person out."""

    def end():
        forget_session(sessions.end(request.user, pk, by=request.caller.actor))

    return carry_out(request, end, then=reverse("me") + "#me-sessions", say=gettext("That session is signed out."))


@signed_in
@require_POST
def end_sessions(request):
    """Sign the person out everywhere else, or with `this` also here."""
    also_here = bool(request.POST.get("this"))
    _end_all(request.user, request, but=None if also_here else request.session.session_key)
    if also_here:
        request.session.flush()
        return redirect("account_login")
    messages.success(request, gettext("You are signed out everywhere else."))
    return redirect(reverse("me") + "#me-sessions")


def _end_all(user, request, *, but: str | None = None) -> int:
    ended = sessions.end_all(user, by=request.caller.actor, but=but)
    for key in ended:
        forget_session(key)
    return len(ended)


@signed_in
@require_POST
def end_sessions_of(request, pk):
    """End all sessions of a member of the team; their open pages close at the next check, within 30 seconds."""
    members = Membership.objects.filter(team__in=request.caller.team_ids).select_related("team", "user")
    membership = get_object_or_404(members, pk=pk)
    must(request.caller, "manage_people", membership.team)
    count = _end_all(membership.user, request)
    ended = ngettext("%(n)d session of %(user)s is ended.", "%(n)d sessions of %(user)s are ended.", count)
    messages.success(request, ended % {"n": count, "user": membership.user})
    return redirect("team")


@login_required
@never_cache
@require_safe
def needed(request):
    """Say which second factor the session lacks, and lead to the pages that set one up or ask for it."""
    lacking = second_factor_rule.lacks(request, caller_of(request.user))
    usable = bool(passkeys.usable_by(request.user))
    has_app = Authenticator.objects.filter(user=request.user, type=Authenticator.Type.TOTP).exists()
    about = {"lacking": lacking, "has_passkey": usable, "has_app": has_app}
    about["second"] = second_factor.of_person(request.user)
    return render(request, "dashboard/second_factor.html", about)

"""A person's notifications: settings, devices, channels, what was sent; and what a device reports and answers."""

import json
import zoneinfo
from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from approvals.evaluation.duty import settings_of
from approvals.models import (
    Channel,
    Delivery,
    DeliveryKind,
    NotificationSettings,
    PushSubscription,
    Status,
)
from approvals.notify import channels, devices, notices, receipts, tokens, vapid
from dashboard.database import clock
from dashboard.models import Team
from dashboard.people.second_factor_rule import caller_in
from dashboard.people.sessions import device_name
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, as_uuid, carry_out, signed_in
from workspaces.models import Workspace

RECENT = 20  # deliveries shown
FRESH = timedelta(minutes=1)  # within which the page follows what becomes of a delivery
MAX_BODY = 8192  # bytes of what a browser or its service worker sends


class SettingsForm(forms.Form):
    """What the person wants to be told, when and how."""

    on_duty = forms.BooleanField(
        label=gettext_lazy("I am on duty: notify me"),
        required=False,
        help_text=gettext_lazy(
            "Rules of a policy can ask whether somebody is on duty. You are not in your quiet hours, nor for teams that"
            " don't notify you."
        ),
    )
    only_critical = forms.BooleanField(label=gettext_lazy("Only critical actions"), required=False)
    teams = forms.MultipleChoiceField(
        label=gettext_lazy("Teams that notify me"), required=False, widget=forms.CheckboxSelectMultiple(), choices=[]
    )
    workspaces_off = forms.CharField(
        label=gettext_lazy("Workspaces that don't notify me"),
        required=False,
        max_length=2000,
        help_text=gettext_lazy("Names as in team/workspace, separated by spaces."),
    )
    quiet_from = forms.TimeField(
        label=gettext_lazy("Quiet hours from"), required=False, widget=forms.TimeInput({"type": "time"}, format="%H:%M")
    )
    quiet_until = forms.TimeField(
        label=gettext_lazy("Quiet hours until"),
        required=False,
        widget=forms.TimeInput({"type": "time"}, format="%H:%M"),
    )
    critical_in_quiet = forms.BooleanField(label=gettext_lazy("Critical actions also in quiet hours"), required=False)
    is_private = forms.BooleanField(
        label=gettext_lazy("Lock screens show only that something needs approval"), required=False
    )
    unseen_minutes = forms.IntegerField(
        label=gettext_lazy("Minutes until my channels are used, if nobody has seen it"),
        min_value=1,
        max_value=1440,
        help_text=gettext_lazy("At once, if no device of yours takes notifications."),
    )
    digest_at = forms.TimeField(
        label=gettext_lazy("Morning digest at"),
        required=False,
        help_text=gettext_lazy(
            "What ended, what asks, what it cost and what looked odd in the last 24 hours. None if nothing happened."
        ),
        widget=forms.TimeInput({"type": "time"}, format="%H:%M"),
    )

    def __init__(self, data, *, caller, stored: NotificationSettings):
        self.caller, self.stored = caller, stored
        teams = Team.objects.visible_to(caller).order_by("name")
        super().__init__(data, initial=self._initial(stored, teams))
        self.fields["teams"].choices = [(str(team.pk), team.name) for team in teams]

    @staticmethod
    def _initial(stored, teams) -> dict:
        names = ("on_duty", "only_critical", "quiet_from", "quiet_until", "critical_in_quiet", "is_private")
        found = {name: getattr(stored, name) for name in (*names, "unseen_minutes", "digest_at")}
        on = [str(team.pk) for team in teams if str(team.pk) not in stored.teams_off]
        return found | {"teams": on, "workspaces_off": " ".join(stored.workspaces_off)}

    def clean_workspaces_off(self) -> list[str]:
        wanted = list(dict.fromkeys(self.cleaned_data["workspaces_off"].replace(",", " ").split()))
        rows = Workspace.objects.visible_to(self.caller).values_list("team__slug", "key")
        known = {f"{team}/{key}" for team, key in rows}
        for name in wanted:
            if name not in known and name not in self.stored.workspaces_off:
                raise forms.ValidationError(
                    gettext("You see no workspace of this name: %(name)s"), params={"name": name[:80]}
                )
        return wanted

    def clean(self):
        found = super().clean()
        if bool(found.get("quiet_from")) != bool(found.get("quiet_until")):
            self.add_error("quiet_until", gettext("Quiet hours need a beginning and an end."))
        return found

    def save(self, zone: str):
        found = dict(self.cleaned_data)
        chosen = set(found.pop("teams"))
        found["teams_off"] = [pk for pk, _ in self.fields["teams"].choices if pk not in chosen]
        NotificationSettings.objects.update_or_create(user=self.stored.user, defaults=found | {"zone": zone})


class ChannelForm(forms.Form):
    url = forms.CharField(
        label=gettext_lazy("URL of the channel"),
        max_length=channels.MAX_URL,
        widget=forms.TextInput(
            {"class": "code-field", "placeholder": "ntfys://ntfy.sh/a-topic-nobody-guesses", "autocomplete": "off"}
        ),
        help_text=gettext_lazy(
            "As apprise writes it: ntfys://, mailtos://, slack://, tgram://, matrixs://, discord://, gotifys://."
        ),
    )
    with_title = forms.BooleanField(
        label=gettext_lazy("Send the action's title too, which can hold parts of the command"), required=False
    )


@signed_in
@READ_OR_WRITE
def notifications(request):
    """Show the page; POST saves the settings."""
    form = SettingsForm(request.POST or None, caller=request.caller, stored=settings_of(request.user))
    if request.method == "POST" and form.is_valid():
        form.save(_zone(request))
        messages.success(request, gettext("Saved."))
        return redirect("notifications")
    return _show(request, form, ChannelForm())


def _show(request, form, channel_form):
    sent = Delivery.objects.filter(user=request.user).exclude(kind=DeliveryKind.CLOSE)
    sent = list(sent.select_related("notice__action").order_by("-created_at")[:RECENT])
    own = PushSubscription.objects.filter(user=request.user).order_by("created_at")
    context = {
        "nav": "me",
        "form": form,
        "channel_form": channel_form,
        "devices": [(device, device_name(device.user_agent)) for device in own],
        "channels": Channel.objects.filter(user=request.user).order_by("created_at"),
        "sent": sent,
        "is_fresh": bool(sent) and sent[0].created_at > clock.now() - FRESH,
        "here": reverse("notifications"),
        "push_key": vapid.public_key(),
        "zone": _zone(request),
    }
    return render(request, "approvals/notifications.html", context)


def _zone(request) -> str:
    """Return the browser's time zone, which static/js/time.js stores in a cookie."""
    name = request.COOKIES.get("handrail-zone", "UTC")
    return name if name in zoneinfo.available_timezones() else "UTC"


@signed_in
@require_POST
def add_device(request):
    """Store the push subscription of this browser (JSON of PushSubscription.toJSON), or renew it."""
    found = _json(request)
    if found is None:
        return JsonResponse({"detail": gettext("This is no subscription.")}, status=422)
    if not request.session.session_key:
        request.session.save()
    try:
        devices.subscribe(
            request.user,
            found,
            session_key=request.session.session_key,
            user_agent=request.headers.get("User-Agent", ""),
        )
    except Problem as problem:
        return JsonResponse({"detail": problem.detail}, status=problem.status)
    return HttpResponse(status=204)


@signed_in
@require_POST
def drop_device(request):
    """Forget the subscription that this browser has given up: {endpoint}."""
    found = _json(request) or {}
    devices.unsubscribe(request.user, str(found.get("endpoint")))
    return HttpResponse(status=204)


@signed_in
@require_POST
def remove_device(request, pk):
    get_object_or_404(PushSubscription, pk=pk, user=request.user).delete()
    messages.success(request, gettext("The device gets no more notifications."))
    return redirect("notifications")


@signed_in
@require_POST
def add_channel(request):
    form = ChannelForm(request.POST)
    if form.is_valid():
        chosen = form.cleaned_data
        try:
            channels.add(request.user, chosen["url"], with_title=chosen["with_title"])
        except Problem as problem:
            form.add_error("url", problem.detail)
        else:
            messages.success(request, gettext("Channel added."))
            return redirect("notifications")
    return _show(request, SettingsForm(None, caller=request.caller, stored=settings_of(request.user)), form)


@signed_in
@require_POST
def remove_channel(request, pk):
    get_object_or_404(Channel, pk=pk, user=request.user).delete()
    messages.success(request, gettext("Channel removed."))
    return redirect("notifications")


@signed_in
@require_POST
def send_test(request):
    """Queue a test notification to all devices and channels of the person."""
    words = {0: gettext("You have no device and no channel yet.")}
    return carry_out(
        request,
        lambda: notices.send_test(request.user, clock.now()),
        then=reverse("notifications"),
        say=lambda count: words.get(count, gettext("A test is on its way. Below it says when it was sent and shown.")),
    )


# What a service worker sends -----------------------------------------------------------------------------------------


@csrf_exempt  # a service worker has no form; the receipt, which only the device got, is the proof
@never_cache
@require_POST
def report(request):
    """Record that a device showed or opened a notification: {delivery, receipt, what}."""
    found = _json(request) or {}
    pk, what = as_uuid(str(found.get("delivery"))), found.get("what")
    known = pk and what in ("shown", "opened") and receipts.note(pk, str(found.get("receipt")), what)
    return HttpResponse(status=204 if known else 404)


@csrf_exempt  # as above; the token is the proof, and the session cookie, which is never sent by other sites' forms
@never_cache
@require_POST
def answer(request):
    """Decide by a notification's token: {token}. The answer says in words what came of it."""
    found = _json(request) or {}
    key = request.session.session_key if request.user.is_authenticated else None
    try:
        action = tokens.use(str(found.get("token")), caller=caller_in(request), session_key=key)
    except Problem as problem:
        return JsonResponse({"ok": False, "says": problem.detail}, status=problem.status)
    return JsonResponse(
        {"ok": True, "says": gettext("Denied") if action.status == Status.DENIED else gettext("Approved")}
    )


def _json(request) -> dict | None:
    if len(request.body) > MAX_BODY:
        return None
    try:
        found = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

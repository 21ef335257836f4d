"""The Django admin: every change in it records an event, and what the pages refuse is refused here too."""

import allauth.account.admin
import allauth.mfa.admin  # noqa: F401 - as above
import django_q.admin  # noqa: F401 - as above
from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django_q.models import Failure, OrmQ, Schedule, Success

from dashboard import tokens
from dashboard.models import Actor, Agent, Event, Membership, Role, Team, Token
from dashboard.people import members
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import Problem

# Sign in through allauth: the same rate limits and the same second factor as everywhere.
admin.site.login = secure_admin_login(admin.site.login)
admin.site.site_header = admin.site.site_title = "Handrail"

# A row of the queue names any Python function, so anyone who may add or resubmit one could run anything. The schedule
# is dashboard.ops.tasks.SCHEDULED. Rights come from roles in teams, not from groups.
admin.site.unregister([Schedule, Success, Failure, OrmQ, Group, EmailAddress, Authenticator, get_user_model()])

_app_list = admin.site.get_app_list


def retention_first(request, app_label=None):
    """List retention policies first: they delete things without being asked."""
    apps = sorted(_app_list(request, app_label), key=lambda app: app["app_label"] != "workspaces")
    for app in apps:
        app["models"].sort(key=lambda model: model["object_name"] != "RetentionPolicy")
    return apps


admin.site.get_app_list = retention_first


class Logged(admin.ModelAdmin):
    """Records an event for each addition and change, in the transaction of the change; rows are never deleted.

    A subclass whose own functions write the event sets `writes_events = False`.
    """

    writes_events = True

    def has_delete_permission(self, request, obj=None):
        return False

    def log_addition(self, request, obj, message):
        self._record(request, obj, "added", message)
        return super().log_addition(request, obj, message)

    def log_change(self, request, obj, message):
        self._record(request, obj, "changed", message)
        return super().log_change(request, obj, message)

    def _record(self, request, obj, what: str, message):
        if self.writes_events:
            fields = sorted({name for part in message for name in part.get(what, {}).get("fields", [])})
            self.record(Actor.person(request.user), obj, what, {"changed": fields})

    def record(self, by: Actor, obj, what: str, data: dict):
        verb = f"{obj._meta.model_name}.{what}"
        Event.objects.record(getattr(obj, "team", obj), actor=by, verb=verb, subject=obj, data=data)


class Shown(Logged):
    """Read-only in the admin: its own pages change it, with their checks and events."""

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False


class MembershipFormSet(forms.BaseInlineFormSet):
    def clean(self):
        super().clean()
        if any(self.errors) or not Membership.objects.filter(team=self.instance, role=Role.ADMIN).exists():
            return
        left = [form.cleaned_data for form in self.forms if form.cleaned_data and not form.cleaned_data.get("DELETE")]
        if not any(row["role"] == Role.ADMIN and row["user"].is_active for row in left):
            raise forms.ValidationError("A team keeps at least one active admin.")


class MembershipInline(admin.TabularInline):
    model = Membership
    formset = MembershipFormSet
    fields = ["user", "role"]
    extra = 0

    def get_formset(self, request, obj=None, **kwargs):
        formset = super().get_formset(request, obj, **kwargs)
        formset.form.base_fields["user"].widget.can_delete_related = False
        return formset


@admin.register(Team)
class TeamAdmin(Logged):
    list_display = ["name", "slug", "event_seq", "stopped_at"]
    inlines = [MembershipInline]
    readonly_fields = ["stopped_at", "stopped_by"]

    def get_readonly_fields(self, request, obj=None):
        return [*self.readonly_fields, "slug"] if obj else self.readonly_fields

    def save_formset(self, request, form, formset, change):
        formset.save(commit=False)
        by = Actor.person(request.user)
        for gone in formset.deleted_objects:
            members.remove(gone, by=by)
        for changed, _ in formset.changed_objects:
            members.change_role(Membership.objects.get(pk=changed.pk), changed.role, by=by)
        for new in formset.new_objects:
            members.add(form.instance, new.user, new.role, by=by)


class PersonForm(UserChangeForm):
    def clean(self):
        cleaned = super().clean()
        closes = self.instance.is_active and not cleaned.get("is_active", True)
        if closes and (alone := members.teams_without_another_admin(self.instance)):
            names = ", ".join(map(str, alone))
            self.add_error("is_active", f"This is the only admin of {names}; make another person admin first.")
        return cleaned


@admin.register(get_user_model())
class PersonAdmin(Logged, UserAdmin):
    """An account is closed, never deleted: its decisions and actions keep referring to it."""

    form = PersonForm
    list_display = ["username", "first_name", "last_name", "is_active", "is_superuser", "last_login"]
    list_filter = ["is_active", "is_superuser"]
    filter_horizontal = []
    readonly_fields = ["last_login", "date_joined"]
    fieldsets = [
        (None, {"fields": ["username", "password", "first_name", "last_name", "email"]}),
        ("Rights", {"fields": ["is_active", "is_staff", "is_superuser"]}),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]

    def get_readonly_fields(self, request, obj=None):
        # Invitations and the log identify a person by this name.
        return [*self.readonly_fields, "username"] if obj else self.readonly_fields

    def record(self, by: Actor, obj, what: str, data: dict):
        record_for_person(obj, f"person.account_{what}", actor=by, **data)


@admin.register(Agent)
class AgentAdmin(Logged):
    """Agents are paused on their own page. An agent cannot change team: its actions, tokens and workspaces stay."""

    list_display = ["name", "team", "owner", "paused_at", "last_seen_at"]
    list_select_related = ["team", "owner"]
    list_filter = ["team"]
    readonly_fields = ["paused_at", "last_seen_at"]

    def get_readonly_fields(self, request, obj=None):
        return [*self.readonly_fields, "team"] if obj else self.readonly_fields


@admin.register(Token)
class TokenAdmin(Shown):
    """Tokens are created where they can be shown once; the admin only lists them and revokes them for good."""

    list_display = ["prefix", "team", "agent", "user", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["team", "agent__owner", "user"]
    list_filter = ["team"]
    exclude = ["sha256"]
    actions = ["revoke"]

    @admin.action(description="Revoke the selected tokens", permissions=["revoke"])
    def revoke(self, request, queryset):
        done = 0
        for token in queryset.select_related("team", "agent", "user"):
            try:
                tokens.revoke(token, by=Actor.person(request.user))
                done += 1
            except Problem as problem:
                messages.warning(request, problem.detail)
        messages.success(request, f"Revoked {done} token{'' if done == 1 else 's'}.")

    def has_revoke_permission(self, request):
        return request.user.is_superuser or request.user.has_perm("dashboard.change_token")


@admin.register(Authenticator)
class SecondFactorAdmin(Shown):
    """Passkeys, authenticator apps and recovery codes; their secrets and keys are not shown."""

    list_display = ["user", "type", "name", "made_for", "created_at", "last_used_at"]
    list_select_related = ["user"]
    list_filter = ["type"]
    exclude = ["data"]
    readonly_fields = ["name", "made_for"]

    @admin.display
    def name(self, obj) -> str:
        return obj.data.get("name", "")

    @admin.display(description="made for")
    def made_for(self, obj) -> str:
        return obj.data.get("rp_id", "")

"""The Django admin: every change in it records an event, and what the pages refuse is refused here too."""

import allauth.account.admin
import allauth.mfa.admin
import allauth.usersessions.admin  # noqa: F401 - as above
import django_q.admin  # noqa: F401 - as above
from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django.db import models
from django.shortcuts import redirect
from django_q.models import Failure, OrmQ, Schedule, Success

from dashboard.models import Actor, Agent, BackupPlan, Banner, Event, Membership, Role, SignInLink, Team, Token
from dashboard.people import members, second_factor_rule, sessions, tokens
from dashboard.people.access import caller_of
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import Problem


def may_enter(request) -> bool:
    """Let in staff, and the admins of teams, who find there what is open to them: their teams' retention."""
    user = request.user
    return user.is_active and (user.is_staff or Membership.objects.filter(user=user.pk, role=Role.ADMIN).exists())


# Sign in through allauth: the same rate limits and the same second factor as everywhere.
_sign_in = secure_admin_login(admin.site.login)


def sign_in(request, *args, **kwargs):
    """Lead a session that lacks the second factor to the page that asks for it, others to the sign-in page."""
    lacking = request.user.is_authenticated and second_factor_rule.lacks(request, caller_of(request.user))
    return redirect(second_factor_rule.mend_at(lacking)) if lacking else _sign_in(request, *args, **kwargs)


admin.site.login = sign_in
admin.site.has_permission = may_enter
second_factor_rule.guard_admin(admin.site)
admin.site.site_header = admin.site.site_title = "Handrail"

# A row of the queue names any Python function, so anyone who may add or resubmit one could run anything. The schedule
# is dashboard.ops.tasks.SCHEDULED. Rights come from roles in teams, not from groups.
admin.site.unregister(
    [Schedule, Success, Failure, OrmQ, Group, EmailAddress, Authenticator, UserSession, get_user_model()]
)

_app_list = admin.site.get_app_list


def retention_first(request, app_label=None):
    """List retention policies first: they delete things without being asked."""
    found = sorted(_app_list(request, app_label), key=lambda app: app["app_label"] != "workspaces")
    for app in found:
        app["models"].sort(key=lambda model: model["object_name"] != "TeamRetention")
    return found


admin.site.get_app_list = retention_first


OF_TEAM = ("team", admin.RelatedOnlyFieldListFilter)  # names only teams that the person sees


class Logged(admin.ModelAdmin):
    """Records an event for each addition and change, in the transaction of the change; rows are never deleted.

    A subclass whose own functions write the event sets `writes_events = False`. `team_path` leads from a row to its
    team: with it, staff who are admins of teams see the rows of these; without it, only superusers see any.
    """

    writes_events = True
    team_path = None
    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request):
        rows = super().get_queryset(request)
        if request.user.is_superuser:
            return rows
        managed = Membership.objects.filter(user=request.user, role=Role.ADMIN).values("team")
        return rows.filter(**{f"{self.team_path}__in": managed}) if self.team_path else rows.none()

    def has_module_permission(self, request):
        return super().has_module_permission(request) or self.has_view_permission(request)

    def has_view_permission(self, request, obj=None):
        return super().has_view_permission(request, obj) or self._is_for(request.user)

    def _is_for(self, user) -> bool:
        """Return True for staff who are admins of a team, where rows belong to teams."""
        may = self.team_path and user.is_active and user.is_staff
        return bool(may and Membership.objects.filter(user=user, role=Role.ADMIN).exists())

    def has_delete_permission(self, request, obj=None):
        return False

    def save_model(self, request, obj, form, change):
        if team_id := getattr(obj, "team_id", None):
            Team.objects.take_turn(team_id)
        super().save_model(request, obj, form, change)

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
    team_path = "pk"
    list_display = ["name", "slug", "event_seq", "second_factor_for", "stopped_at", "archived_at"]
    list_filter = ["second_factor_for", "requires_passkey", ("archived_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "slug"]
    date_hierarchy = "created_at"
    inlines = [MembershipInline]
    readonly_fields = ["stopped_at", "stopped_by", "archived_at"]

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
    search_fields = ["username", "first_name", "last_name"]
    date_hierarchy = "date_joined"
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

    team_path = "team"
    list_display = ["name", "team", "owner", "paused_at", "last_seen_at"]
    list_select_related = ["team", "owner"]
    list_filter = [OF_TEAM, ("paused_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "owner__username"]
    date_hierarchy = "created_at"
    readonly_fields = ["paused_at", "last_seen_at"]

    def get_readonly_fields(self, request, obj=None):
        return [*self.readonly_fields, "team"] if obj else self.readonly_fields


@admin.register(Token)
class TokenAdmin(Shown):
    """Tokens are created where they can be shown once; the admin only lists them and revokes them for good."""

    team_path = "team"
    list_display = ["prefix", "team", "agent", "user", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["team", "agent__owner", "user"]
    list_filter = [OF_TEAM, "for_run", ("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["prefix", "agent__name", "user__username"]
    date_hierarchy = "created_at"
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
    search_fields = ["user__username"]
    date_hierarchy = "created_at"
    exclude = ["data"]
    readonly_fields = ["name", "made_for"]

    @admin.display
    def name(self, obj) -> str:
        return obj.data.get("name", "")

    @admin.display(description="made for")
    def made_for(self, obj) -> str:
        return obj.data.get("rp_id", "")


@admin.register(UserSession)
class SessionAdmin(Shown):
    """Where people are signed in; ended on their own page, or for a member on the Team page."""

    list_display = ["user", "device", "ip", "created_at", "last_seen_at"]
    list_select_related = ["user"]
    search_fields = ["user__username", "ip"]
    date_hierarchy = "last_seen_at"
    fields = readonly_fields = ["user", "device", "ip", "created_at", "last_seen_at"]

    @admin.display
    def device(self, obj) -> str:
        return sessions.device_name(obj.user_agent)


@admin.register(Event)
class EventAdmin(Shown):
    """The log, which nothing changes: triggers of the database refuse it too."""

    team_path = "team"
    list_display = ["seq", "at", "team", "verb", "actor_label", "subject_type", "subject_id"]
    list_select_related = ["team"]
    list_filter = [OF_TEAM, "actor_type"]
    search_fields = ["=verb", "actor_label", "=subject_id"]
    date_hierarchy = "at"
    ordering = ["-id"]


@admin.register(Membership)
class MembershipAdmin(Shown):
    """Who is in which team; changed on the Team page, or in the form of the team."""

    team_path = "team"
    list_display = ["user", "team", "role", "desk_seen_at"]
    list_select_related = ["user", "team"]
    list_filter = [OF_TEAM, "role"]
    search_fields = ["user__username", "team__name"]


@admin.register(SignInLink)
class SignInLinkAdmin(Shown):
    """One-time sign-in links; their secrets are stored nowhere, and their hashes not shown."""

    list_display = ["user", "created_at", "expires_at", "used_at"]
    list_select_related = ["user"]
    list_filter = [("used_at", admin.EmptyFieldListFilter)]
    search_fields = ["user__username"]
    date_hierarchy = "created_at"
    exclude = ["sha256"]


class OfInstallation(Logged):
    """What concerns all teams: each has the event in its log."""

    def record(self, by: Actor, obj, what: str, data: dict):
        verb = f"{obj._meta.model_name}.{what}"
        Event.objects.record_for_all(actor=by, verb=verb, data=data)


@admin.register(BackupPlan)
class BackupPlanAdmin(OfInstallation):
    """Scheduled backups, below HANDRAIL_EXPORTS; each is opened and checked."""

    list_display = ["__str__", "active", "hour", "keep", "made_at", "problem"]
    readonly_fields = ["begun_at", "made_at", "words", "problem"]

    def has_add_permission(self, request):
        return super().has_add_permission(request) and not BackupPlan.objects.exists()


@admin.register(Banner)
class BannerAdmin(OfInstallation):
    """A notice of maintenance on every page and in the header Handrail-Maintenance of the API."""

    list_display = ["text", "from_at", "until_at"]
    search_fields = ["text"]
    date_hierarchy = "from_at"

    def record(self, by: Actor, obj, what: str, data: dict):
        super().record(by, obj, what, data | {"text": obj.text, "until": obj.until_at.isoformat(timespec="minutes")})


class Plain(Shown):
    """A model that nobody wrote a list for: its plain columns, for superusers."""


def register_the_rest(app_labels):
    """Show the models of these apps that are not registered yet, without bytes, JSON, references and hashes."""
    for label in app_labels:
        for model in apps.get_app_config(label).get_models():
            if model not in admin.site._registry:
                fields = [field.name for field in model._meta.concrete_fields if _is_plain(field)]
                own = {"list_display": fields[:6], "fields": fields, "readonly_fields": fields}
                admin.site.register(model, type(f"{model.__name__}Admin", (Plain,), own))


def _is_plain(field) -> bool:
    hides = any(part in field.name for part in ("sha256", "hash", "secret", "token", "key"))
    return not (field.is_relation or hides or isinstance(field, (models.BinaryField, models.JSONField)))

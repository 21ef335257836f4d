"""Environments and secrets in the Django admin, by the rules of dashboard.admin; retention: `retention/`."""

from django import forms
from django.contrib import admin

from dashboard.admin import OF_TEAM, Logged, Shown
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.admin import records  # noqa: F401 - registers the records
from workspaces.admin.retention import TeamRetentionAdmin  # noqa: F401 - registers itself
from workspaces.drivers import capabilities
from workspaces.models import Cap, Environment, Secret
from workspaces.provisioning import isolation
from workspaces.provisioning.caps import in_words
from workspaces.services import caps, environments


class EnvironmentForm(forms.ModelForm):
    """All fields of an environment, with the checks of services.environments as form errors."""

    driver = forms.ChoiceField(choices=[(name, name) for name in capabilities.TABLE])
    minimum_isolation = forms.ChoiceField(choices=[(level, level) for level in isolation.LEVELS])

    def clean(self):
        # An empty JSON field is None in a form, which the columns do not allow.
        cleaned = {
            name: Environment._meta.get_field(name).get_default() if value is None else value
            for name, value in super().clean().items()
        }
        if not self.errors:
            try:
                base = None if self.instance._state.adding else self.instance
                environments.check(cleaned, base, base.team if base else cleaned["team"])
                if base is None:
                    environments.must_be_free(cleaned["team"], cleaned["name"])
                else:
                    environments.must_be_newest(self.instance)
            except Problem as problem:
                raise forms.ValidationError(problem.detail) from problem
        return cleaned


@admin.register(Environment)
class EnvironmentAdmin(Logged):
    """Saving creates the next version: rows that workspaces were created from never change."""

    form = EnvironmentForm
    list_display = ["name", "version", "team", "driver", "image", "repository", "ref"]
    list_select_related = ["team"]
    team_path = "team"
    list_filter = [OF_TEAM, "driver"]
    search_fields = ["name", "image", "repository"]
    date_hierarchy = "created_at"
    exclude = ["version", "secrets", "agents"]  # edited on the environment's page, which checks the names
    writes_events = False  # environments.save does

    def get_readonly_fields(self, request, obj=None):
        return ["team", "name"] if obj else []

    def save_model(self, request, obj, form, change):
        base = Environment.objects.get(pk=obj.pk) if change else None
        fields = {name: value for name, value in form.cleaned_data.items() if name not in ("team", "name")}
        made = environments.save(obj.team, obj.name, fields, base=base, by=Actor.person(request.user))
        # The admin's message and log then name the new version, not the row that was opened.
        obj.pk, obj.version = made.pk, made.version
        obj._state.adding = False


@admin.register(Secret)
class SecretAdmin(Shown):
    """Secrets with their expiry. Values are set on the Secrets page; no field here holds one."""

    list_display = ["name", "scope", "team", "set_at", "expires_at"]
    list_select_related = ["team"]
    team_path = "team"
    list_filter = [OF_TEAM, "scope"]
    search_fields = ["name"]
    date_hierarchy = "set_at"
    fields = readonly_fields = ["name", "scope", "team", "set_at", "expires_at"]

    def has_delete_permission(self, request, obj=None):
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request, obj):
        secrets.delete(obj, by=Actor.person(request.user))

    def delete_queryset(self, request, queryset):
        for secret in queryset:
            secrets.delete(secret, by=Actor.person(request.user))


class CapForm(forms.ModelForm):
    """A team's limit, in hours, bytes or workspaces."""

    class Meta:
        help_texts = {"limit": "Hours awake or bytes over the network of a month; workspaces or bytes on disk."}

    def clean_limit(self):
        limit = self.cleaned_data["limit"]
        if not 1 <= limit <= caps.MAX_LIMIT:
            raise forms.ValidationError(f"Give a number from 1 to {caps.MAX_LIMIT:,}.")
        return limit


@admin.register(Cap)
class CapAdmin(Logged):
    """Limits of teams. Leads lift them on the Measures page, which also shows what is used."""

    form = CapForm
    fields = ["team", "measure", "limit"]
    list_display = ["team", "measure", "words", "lifted_month"]
    list_select_related = ["team"]
    team_path = "team"
    list_filter = [OF_TEAM, "measure"]
    search_fields = ["team__name", "team__slug"]
    writes_events = False  # services.caps does

    @admin.display(description="limit", ordering="limit")
    def words(self, cap):
        return in_words(cap)

    def get_readonly_fields(self, request, obj=None):
        return ["team", "measure"] if obj else []

    def has_delete_permission(self, request, obj=None):
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def save_model(self, request, obj, form, change):
        caps.set_limit(obj.team, obj.measure, obj.limit, by=Actor.person(request.user))
        obj.pk = Cap.objects.get(team=obj.team, measure=obj.measure).pk

    def delete_model(self, request, obj):
        caps.set_limit(obj.team, obj.measure, None, by=Actor.person(request.user))

    def delete_queryset(self, request, queryset):
        for cap in queryset.select_related("team"):
            self.delete_model(request, cap)

"""Retention, environments and secrets in the Django admin."""

from django import forms
from django.contrib import admin

from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import environments, isolation, retention, secrets
from workspaces.models import Environment, RetentionPolicy, Secret

RULES = ("snapshot_days", "keep_newest_snapshots", "home_days", "output_days", "unused_workspace_days")


class RetentionForm(forms.ModelForm):
    """What would go is shown first; only a second look, at these very rules, saves them."""

    confirmed = forms.BooleanField(required=False, label="Yes, delete that")
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = RetentionPolicy
        fields = ("team", *RULES)
        help_texts = {
            "snapshot_days": "Days. Empty: for ever. Pinned ones, the newest ones below, the first and the current one "
            "of each workspace stay in any case.",
            "keep_newest_snapshots": "So many of each workspace stay however old they are.",
            "home_days": "Days without use until the agent's home in a workspace that is asleep is emptied: its "
            "sessions and caches. The files in /workspace stay. Empty: never.",
            "output_days": "Days that the output of commands and the recordings of terminals are kept; how they ended "
            "stays. Empty: for ever.",
            "unused_workspace_days": "Days without use until a workspace that is asleep goes to the trash, with a "
            "snapshot of everything. People are warned a week before (half the time, where that is less) and can keep "
            "it. Empty: never. Folders of people are left alone.",
        }

    def clean(self):
        cleaned = super().clean()
        if self.errors or not cleaned.get("team"):
            return cleaned
        policy = RetentionPolicy(team=cleaned["team"], **{name: cleaned[name] for name in RULES})
        found = retention.preview(policy)
        # A yes is to the rules that were shown, not to what was typed afterwards.
        rules = ",".join(str(value) for value in (cleaned["team"].pk, *(cleaned[name] for name in RULES)))
        if found.deletes and not (cleaned.get("confirmed") and cleaned.get("seen") == rules):
            self.data = self.data.copy()
            self.data["seen"] = rules
            self.data.pop("confirmed", None)
            self.add_error("confirmed", f"{found} Tick this and save again to confirm.")
        return cleaned


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(admin.ModelAdmin):
    list_display = ["team", "snapshot_days", "keep_newest_snapshots", "unused_workspace_days", "tonight"]
    form = RetentionForm

    @admin.display(description="tonight")
    def tonight(self, policy):
        return str(retention.preview(policy, weigh=False)).replace("Saving this deletes", "Deletes")

    def save_model(self, request, obj, form, change):
        super().save_model(request, obj, form, change)
        data = {name: getattr(obj, name) for name in RULES}
        Event.objects.record(
            obj.team, actor=Actor.person(request.user), verb="retention.saved", subject=obj.team, data=data
        )


class EnvironmentForm(forms.ModelForm):
    """The whole row, with what it must not say refused in words."""

    driver = forms.ChoiceField(choices=[(name, name) for name in isolation.ISOLATION])
    minimum_isolation = forms.ChoiceField(choices=[(level, level) for level in isolation.LEVELS])

    def clean(self):
        cleaned = super().clean()
        if not self.errors:
            try:
                environments.check(cleaned)
            except Problem as problem:
                raise forms.ValidationError(problem.detail) from problem
        return cleaned


@admin.register(Environment)
class EnvironmentAdmin(admin.ModelAdmin):
    """A saved environment is the next version of it: rows that workspaces were made from never change."""

    form = EnvironmentForm
    list_display = ["name", "version", "team", "driver", "image", "repository", "ref"]
    list_filter = ["team", "driver"]
    exclude = ["version", "secrets"]  # named on the environment's page, which checks the names

    def has_delete_permission(self, request, obj=None):
        return False

    def save_model(self, request, obj, form, change):
        latest = Environment.objects.filter(team=obj.team, name=obj.name).order_by("-version").first()
        # An empty JSON field comes as None, which is no column of ours.
        fields = {
            name: Environment._meta.get_field(name).get_default() if value is None else value
            for name, value in form.cleaned_data.items()
            if name not in ("team", "name")
        }
        made = environments.save(obj.team, obj.name, fields, base=latest, by=Actor.person(request.user))
        # What the admin tells of afterwards is what was made, not the row that was opened.
        obj.pk, obj.version = made.pk, made.version
        obj._state.adding = False


@admin.register(Secret)
class SecretAdmin(admin.ModelAdmin):
    """What there is and until when; values are set on the page of secrets, and no field here holds one."""

    list_display = ["name", "scope", "team", "set_at", "expires_at"]
    list_filter = ["team", "scope"]
    fields = readonly_fields = ["name", "scope", "team", "set_at", "expires_at"]

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def delete_model(self, request, obj):
        secrets.delete(obj, by=Actor.person(request.user))

    def delete_queryset(self, request, queryset):
        for secret in queryset:
            secrets.delete(secret, by=Actor.person(request.user))

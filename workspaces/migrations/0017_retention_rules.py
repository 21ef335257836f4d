import uuid

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

DAYS = django.core.validators.MaxValueValidator(
    36500, "At most 36,500 days (a hundred years); leave it empty to keep for ever."
)
MOST = django.core.validators.MaxValueValidator(1000000, "At most 1,000,000.")
SNAPSHOTS = ("setup", "action", "end", "periodic", "safety", "other")


def rules_of_policies(apps, schema_editor):
    """Turn each team's policy into rules that keep what it kept."""
    policies, rules = (apps.get_model("workspaces", name) for name in ("RetentionPolicy", "RetentionRule"))
    for policy in policies.objects.all():
        rows = {f"snapshots-{kind}": (policy.snapshot_days, policy.keep_newest_snapshots) for kind in SNAPSHOTS}
        rows |= dict.fromkeys(("output", "recordings", "contacts"), (policy.output_days, 0))
        rows |= {"home": (policy.home_days, 0), "workspaces": (policy.unused_workspace_days, 0)}
        for layer, (days, newest) in rows.items():
            rules.objects.create(team_id=policy.team_id, layer=layer, days=days, keep_newest=newest)


def count(validators=(MOST,)):
    return models.PositiveIntegerField(default=0, validators=list(validators))


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0016_seen_files")]

    operations = [
        migrations.CreateModel(
            name="TeamRetention",
            fields=[],
            options={
                "verbose_name": "retention of a team",
                "verbose_name_plural": "retention",
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("dashboard.team",),
        ),
        migrations.CreateModel(
            name="RetentionRule",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("environment", models.CharField(blank=True, max_length=80)),
                ("layer", models.CharField(max_length=40)),
                ("days", models.PositiveIntegerField(blank=True, null=True, validators=[DAYS])),
                ("keep_newest", count()),
                ("keep_daily", count()),
                ("keep_weekly", count()),
                ("keep_monthly", count()),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="retention_rules",
                        to="dashboard.team",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "environment", "layer"), name="retention_rule_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("reason", models.CharField(max_length=500)),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                ("released_by", models.JSONField(blank=True, default=dict)),
                (
                    "snapshot",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="holds",
                        to="workspaces.snapshot",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="holds", to="dashboard.team"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="holds",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["team", "released_at"], name="hold_by_team")],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(snapshot=None) | Q(workspace__isnull=False), name="hold_names_workspace"
                    )
                ],
            },
        ),
        migrations.RunPython(rules_of_policies, migrations.RunPython.noop),
    ]

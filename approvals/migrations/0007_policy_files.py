import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0006_attention"),
        ("dashboard", "0004_owner_may_approve"),
        ("workspaces", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyFile",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("repository", models.CharField(max_length=500)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("text", models.TextField(blank=True)),
                ("problem", models.TextField(blank=True)),
                ("seen_at", models.DateTimeField()),
                ("is_adopted", models.BooleanField(default=False)),
                ("changed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "adopted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="policy_files", to="dashboard.team"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="action",
            name="policy_file",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="approvals.policyfile",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyfile",
            constraint=models.UniqueConstraint(fields=("team", "repository", "sha256"), name="policy_file_once"),
        ),
    ]

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from dashboard.event_log import triggers


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "__first__"),
        ("dashboard", "0001_initial"),
        ("workspaces", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Token",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to="dashboard.team"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="dashboard.agent",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="handrail_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("for_run", models.BooleanField(default=False)),
                (
                    "workspace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("agent", None), ("user__isnull", False)),
                            models.Q(("agent__isnull", False), ("user", None)),
                            _connector="OR",
                        ),
                        name="token_of_one",
                    )
                ],
            },
        ),
        migrations.RunPython(
            lambda apps, schema_editor: triggers.install(schema_editor.connection),
            lambda apps, schema_editor: triggers.remove(schema_editor.connection),
        ),
    ]

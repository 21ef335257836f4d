"""Keep the folders that clients of E2B's SDKs watch where each web finds them."""

import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0017_threads"),
        ("dashboard", "0005_log_checkpoint_timestamp"),
        ("workspaces", "0012_upstreams"),
    ]

    operations = [
        migrations.CreateModel(
            name="FolderWatch",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("folder", models.TextField(blank=True)),
                ("recursive", models.BooleanField(default=False)),
                ("seen", models.JSONField()),
                ("looks", models.PositiveIntegerField(default=0)),
                ("asked_at", models.DateTimeField()),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="folder_watches", to="dashboard.token"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="folder_watches",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={"verbose_name_plural": "folder watches"},
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0009_messages"),
        ("dashboard", "0003_requires_passkey"),
    ]

    operations = [
        migrations.CreateModel(
            name="SessionPrompt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session", models.CharField(max_length=200)),
                ("text", models.TextField()),
                ("at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.agent"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["agent", "session", "at"], name="prompt_by_session"),
                    models.Index(fields=["at"], name="prompt_by_time"),
                ],
            },
        ),
    ]

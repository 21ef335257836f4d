import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0013_run_leads")]

    operations = [
        migrations.CreateModel(
            "ProgramLead",
            [
                (
                    "operation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="lead",
                        serialize=False,
                        to="workspaces.operation",
                    ),
                ),
                ("waits", models.BooleanField(default=False)),
                ("value", models.BinaryField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="programs", to="workspaces.run"
                    ),
                ),
            ],
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0012_upstreams")]

    operations = [
        migrations.CreateModel(
            "RunLead",
            [
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="lead",
                        serialize=False,
                        to="workspaces.run",
                    ),
                ),
                ("value", models.BinaryField()),
            ],
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="end_code",
            field=models.CharField(
                blank=True,
                choices=[
                    ("withdrawn", "Withdrawn"),
                    ("abandoned", "Abandoned"),
                    ("stopped", "Stopped"),
                    ("revoked", "Revoked"),
                    ("not_started", "Not Started"),
                    ("restored", "Restored"),
                    ("unanswered", "Unanswered"),
                    ("unused", "Unused"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="revision",
            name="changed",
            field=models.JSONField(default=list),
        ),
    ]

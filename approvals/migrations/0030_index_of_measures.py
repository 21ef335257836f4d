from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0029_action_rule"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                fields=["team", "created_at", "tier", "status", "grant", "rule"], name="action_for_measures"
            ),
        ),
    ]

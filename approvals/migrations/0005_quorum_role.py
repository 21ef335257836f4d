from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0004_drills"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="quorum_role",
            field=models.CharField(blank=True, default="", max_length=16),
        ),
    ]

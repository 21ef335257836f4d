from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0003_log_checkpoints"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="owner_may_approve",
            field=models.BooleanField(default=True),
        ),
    ]

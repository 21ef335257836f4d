from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0004_owner_may_approve"),
    ]

    operations = [
        migrations.AddField(
            model_name="logcheckpoint",
            name="timestamp",
            field=models.TextField(blank=True, default=""),
        ),
    ]

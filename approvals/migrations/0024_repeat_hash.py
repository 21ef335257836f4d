from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0023_conversations")]

    operations = [
        migrations.AddField(
            model_name="action",
            name="repeat_hash",
            field=models.CharField(blank=True, max_length=64),
        ),
    ]

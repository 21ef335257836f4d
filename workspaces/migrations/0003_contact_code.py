"""Give each blocked contact a code beside its words."""

from django.db import migrations, models

CODES = {"not an allowed host": "not_listed", "the name can't be resolved": "unresolved"}


def set_codes(apps, schema_editor):
    for why, code in CODES.items():
        apps.get_model("workspaces", "Contact").objects.filter(why=why).update(code=code)


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0002_store_maintenance_as_operations")]
    operations = [
        migrations.AddField("contact", "code", models.CharField(blank=True, max_length=32, default=""), False),
        migrations.RunPython(set_codes, migrations.RunPython.noop),
    ]

from django.db import migrations

from dashboard import triggers


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0002_initial")]
    operations = [
        migrations.RunPython(
            lambda apps, schema_editor: triggers.install(schema_editor.connection),
            lambda apps, schema_editor: triggers.remove(schema_editor.connection),
        )
    ]

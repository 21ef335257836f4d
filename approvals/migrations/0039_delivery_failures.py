from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("approvals", "0038_aap_instance_updates")]

    operations = [migrations.RenameField("delivery", "tries", "failures")]

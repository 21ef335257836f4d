from django.db import migrations


class Migration(migrations.Migration):
    replaces = [("approvals", "0039_delivery_failures")]

    dependencies = [("approvals", "0001_initial")]

    operations = [migrations.RenameField("delivery", "tries", "failures")]

"""The app of actions, decisions and policies; registers in workspaces what it adds there."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        # Needs the models of both apps.
        from approvals import documents, ports, retention_layers, scrub_rules
        from approvals.aap import registrations
        from approvals.log_out import targets
        from approvals.notify import channels
        from approvals.talk import interrupts
        from dashboard.door import entering
        from dashboard.people import sso
        from workspaces import extensions

        entering.refuse_interrupted.append(interrupts.refuse_verb)
        extensions.ports = ports
        extensions.retention_layers.extend(retention_layers.LAYERS)
        extensions.scrub_rules |= scrub_rules.RULES
        columns = (channels, targets, documents, sso, registrations)
        extensions.encrypted.extend(each.encrypted_column for each in columns)

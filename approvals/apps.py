"""The app of actions, decisions and policies; registers in workspaces what it adds there."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        # Needs the models of both apps.
        from approvals import workspace_actions
        from approvals.notify import channels
        from workspaces import extensions

        extensions.ask_a_person = workspace_actions.ask
        extensions.encrypted.append(channels.encrypted_column)

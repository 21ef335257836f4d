"""The app of actions, decisions and policies; registers in workspaces what it adds there."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        # Needs the models of both apps.
        from approvals import (
            documents,
            open_questions,
            retention_layers,
            scrub_rules,
            told_of_work,
            transitions,
            workspace_actions,
        )
        from approvals.aap import registrations
        from approvals.agent_runs import requests, scheduled
        from approvals.conversations import reading
        from approvals.line_comments import drafts, placing
        from approvals.line_comments import sending as line_comments
        from approvals.log_out import targets
        from approvals.model_relay import accounts
        from approvals.notify import channels, direct
        from approvals.talk import interrupts
        from dashboard.door import entering
        from dashboard.people import sso
        from workspaces import extensions

        entering.refuse_interrupted.append(interrupts.refuse_verb)
        extensions.agent_jobs = scheduled
        extensions.work_began_at = requests.work_began_at
        extensions.used_by_agents = accounts.used_by_agents
        extensions.ask_a_person = workspace_actions.ask
        extensions.runs_unasked = workspace_actions.runs_unasked
        extensions.told_of_work.append(told_of_work.approved)
        extensions.said_in = reading.said_in
        extensions.open_questions.append(open_questions.of_workspace)
        extensions.tell_person = direct.tell
        extensions.name_of_action = transitions.name_of
        extensions.agents_at_work.append(transitions.agents_running)
        extensions.place_comments = placing.on_section
        extensions.drafts_of_person.append(drafts.unsent_of)
        extensions.drafts_on = line_comments.drafts_on
        extensions.retention_layers.extend(retention_layers.LAYERS)
        extensions.snapshots_compared.append(retention_layers.snapshots_compared)
        extensions.scrub_rules |= scrub_rules.RULES
        extensions.encrypted.append(channels.encrypted_column)
        extensions.encrypted.append(targets.encrypted_column)
        extensions.encrypted.append(documents.encrypted_column)
        extensions.encrypted.append(sso.encrypted_column)
        extensions.encrypted.append(registrations.encrypted_column)

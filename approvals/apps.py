"""The app of actions, decisions and policies; registers in workspaces what it adds there."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        # Needs the models of both apps.
        from approvals.actions import interrupts
        from approvals.agents import programs
        from approvals.evidence import sentence_forms
        from approvals.notify import channels
        from approvals.notify.log_targets import targets
        from approvals.pages import own_titles
        from approvals.policy import reason_forms, title_forms, titles
        from approvals.protocols import documents
        from approvals.protocols.aap import registrations
        from approvals.registered import ports, retention, scrub
        from dashboard.door import entering
        from dashboard.people import sso
        from dashboard.text import recorded_text
        from workspaces import extensions

        recorded_text.register(
            reason_forms.CLAUSES, title_forms.TITLES, imperative=titles.imperative, programs=title_forms.PROGRAMS
        )
        recorded_text.register((*reason_forms.SENTENCES, *sentence_forms.FORMS))
        recorded_text.own_titles.append(own_titles.own_title)
        entering.refuse_interrupted.append(interrupts.refuse_verb)
        extensions.ports = ports
        extensions.agent_programs |= programs.installable()
        extensions.retention_layers.extend(retention.LAYERS)
        extensions.scrub_rules |= scrub.RULES
        columns = (channels, targets, documents, sso, registrations)
        extensions.encrypted.extend(each.encrypted_column for each in columns)

"""`manage.py migrate`: on an empty database, all tables from the models at once (decision 81); else as Django does."""

from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS

from dashboard.ops import database


class Command(migrate.Command):
    def handle(self, *args, **options):
        narrowed = ("app_label", "migration_name", "fake", "fake_initial", "plan", "check_unapplied", "prune")
        whole = options["database"] == DEFAULT_DB_ALIAS and not any(options.get(name) for name in narrowed)
        if whole and database.is_empty():
            database.create_from_models()
        super().handle(*args, **options)

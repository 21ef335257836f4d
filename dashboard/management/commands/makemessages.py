"""Collect the texts of pages for translators, as Django does, but without guessing translations from similar texts."""

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    """Django's command; a changed text is untranslated again, which tests/dashboard/test_translations.py shows."""

    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-fuzzy-matching"]
    # Nothing in these is shown on a page.
    ignored = [".venv", "var", "tests", "bench", "docs", "deploy", "node_modules", "static/vendor"]

    def handle(self, *args, **options):
        options["ignore_patterns"] = [*options["ignore_patterns"], *self.ignored]
        return super().handle(*args, **options)

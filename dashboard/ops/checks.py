"""System checks: configurations that must not start."""

from django.core.checks import Error, Tags, register

from dashboard.ops import database


@register(Tags.database)
def database_is_of_a_fit_version(app_configs, databases=(), **kwargs):
    """Refuse `manage.py migrate` on a database that this code cannot go on from; other commands do not ask."""
    try:
        if databases:
            database.refuse_misfit(database.applied_migrations())
    except database.DatabaseRefused as refused:
        return [Error(str(refused), id="handrail.E001")]
    return []

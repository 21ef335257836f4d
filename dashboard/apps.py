"""The app of the kernel, the site and what runs it."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        from dashboard.ops import checks  # noqa: F401 - importing registers them, which needs the app registry

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        # Both need the app registry: the checks register themselves, the tasks listen to the queue's heartbeat.
        from dashboard import checks, tasks  # noqa: F401

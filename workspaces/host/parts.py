"""The parts of `make up` that HANDRAIL_PARTS has this host run, and their heartbeats in the host's row.

A database file serves one host, which reads its parts' heartbeat files: there nothing is written into the row.
"""

from django.conf import settings
from django.db import connection

from dashboard.database import clock
from workspaces.models import Runner

BEAT_S = 10.0  # seconds between two heartbeats of web and queue


def run_here(part: str) -> bool:
    return part in settings.HANDRAIL_PARTS


def beat(part: str):
    """Note in the host's row that its web or queue is up, for other hosts."""
    if connection.vendor == "postgresql":
        Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).update(**{f"{part}_at": clock.now()})

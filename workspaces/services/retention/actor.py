"""The actor of sweeps, in the log."""

from dashboard.models import Actor

SWEEPER = Actor.system("retention")

"""Retention: how long what is kept, what is due, and the sweep that deletes it.

`layers` says what there is to delete, `rules` how long a team keeps it, `holds` what must stay, `preview` what goes
next, and `sweeping` deletes. The runner removes files (the kinds purge and forget); the store's collection frees bytes.
"""

from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.ahead import Going, What, going
from workspaces.services.retention.layers import COUNTS, Layer, Terms, layer_named, layers
from workspaces.services.retention.preview import Preview, next_sweep, preview
from workspaces.services.retention.rules import Rules, in_words
from workspaces.services.retention.scope import Scope
from workspaces.services.retention.snapshot_trash import trash_date
from workspaces.services.retention.sweeping import Report, dry_run, sweep, sweep_hours, sweep_team
from workspaces.services.retention.warnings import goes_at, keep_unused, when_it_goes

__all__ = [
    "COUNTS",
    "SWEEPER",
    "Going",
    "Layer",
    "Preview",
    "Report",
    "Rules",
    "Scope",
    "Terms",
    "What",
    "dry_run",
    "goes_at",
    "going",
    "in_words",
    "keep_unused",
    "layer_named",
    "layers",
    "next_sweep",
    "preview",
    "sweep",
    "sweep_hours",
    "sweep_team",
    "trash_date",
    "when_it_goes",
]

#!/usr/bin/env python3
"""Run Django's command line with the settings of Handrail."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    if sys.argv[1:2] and sys.argv[1] not in ("up", "runner", "queue"):
        os.environ.setdefault("HANDRAIL_LOG_LEVEL", "WARNING")  # the command prints for the person who called it
    from dashboard.management.command_line import execute

    execute(sys.argv)

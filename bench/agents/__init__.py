"""Needs Django's settings, which are set up before its modules are imported."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
django.setup()

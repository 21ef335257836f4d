"""Each worker of a run has a home of its own: what one does with its keys or files is nothing to another."""

import os
from pathlib import Path

from django.conf import settings


def test_the_settings_are_of_this_process_own_home():
    assert Path(os.environ["HANDRAIL_HOME"]).resolve() == settings.HANDRAIL_HOME
    assert settings.KEYS_DIR == settings.HANDRAIL_HOME / "keys"

"""What an installation brings, and what it does not."""

import tomllib

from tests.support import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def test_each_database_that_the_settings_name_has_its_driver_in_every_installation():
    needed = [each.partition(";")[0] for each in PROJECT["dependencies"]]
    assert [each for each in needed if each.startswith("psycopg[binary]")]
    assert list(PROJECT["optional-dependencies"]) == ["cedar", "kubernetes", "s3", "mount", "witness", "dev"]

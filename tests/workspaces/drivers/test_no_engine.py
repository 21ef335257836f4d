"""A container's start while its engine is away."""

import asyncio

import pytest

from workspaces.drivers.base import DriverError, RunSpec, get_driver


def test_a_start_that_an_engine_never_heard_of_leaves_nothing_behind(tmp_path):
    (tmp_path / "home").mkdir()
    options = {"address": f"unix://{tmp_path}/nobody.sock"}
    driver = get_driver("docker", tmp_path / "home", tmp_path / "runtime", options)
    spec = RunSpec("rehearse-1", "", "key", tmp_path, tmp_path, uid=1234, image="sha256:0")
    with pytest.raises(DriverError):
        asyncio.run(driver.start(spec))
    assert list((tmp_path / "home" / "runs").iterdir()) == []

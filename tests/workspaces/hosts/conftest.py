"""Two hosts of one installation, one for all tests of a run."""

import pytest

from tests.support.two_hosts import two_hosts


@pytest.fixture(scope="session")
def both_hosts(tmp_path_factory):
    with two_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both

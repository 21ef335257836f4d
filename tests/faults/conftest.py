"""kill -9 at named points and anywhere, on a product of its own. HANDRAIL_TEST_ROUNDS says how often (1)."""

import os
import random

import pytest

from tests.faults.armed_product import ArmedProduct

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))


@pytest.fixture(scope="session")
def seed(request) -> int:
    """HANDRAIL_TEST_SEED, or a new one; printed, so that a run can be done again."""
    chosen = int(os.environ.get("HANDRAIL_TEST_SEED") or random.SystemRandom().randrange(10**6))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nfaults: HANDRAIL_TEST_SEED={chosen} HANDRAIL_TEST_ROUNDS={ROUNDS}")
    return chosen


@pytest.fixture(params=range(1, ROUNDS + 1), ids="round {}".format)
def one_round(request) -> int:
    """A test that asks for this is done once for each round."""
    return request.param


@pytest.fixture
def chance(request, seed) -> random.Random:
    """The same for the same seed and test, whatever ran before."""
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="package")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    engine = os.environ.get("HANDRAIL_TEST_DOCKER_HOST")
    settings = {"HANDRAIL_LOCAL_SOURCES": str(folder)} | ({"HANDRAIL_DOCKER_HOST": engine} if engine else {})
    running = ArmedProduct(folder / "home", folder, **settings)
    yield running
    running.product.clean_up()

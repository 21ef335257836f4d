"""Which driver runs which test: all of them the same, but for what its capabilities say that it cannot.

`@pytest.mark.needs("freeze")` leaves out the drivers without that capability, `@pytest.mark.lacks("freeze")` those that
have it. A test of the contract that names its drivers in any other way ends the session before it begins.
"""

import os
from collections import defaultdict

import pytest

from tests.workspaces.drivers.runs import VARIANTS, begin, capabilities_of, ground, limited  # noqa: F401 - fixtures
from workspaces.drivers.capabilities import TABLE

CONTRACT = "workspaces/drivers/test_contract.py"
# What is about the suite, or about another user, and not about one driver.
NOT_OF_ONE_DRIVER = {"test_all_of_this_holds_for_an_ordinary_user"}
# A start in gVisor takes seconds, and a cluster is slow, so a variant is tried with the tests marked `also(…)` alone,
# unless this says otherwise.
EVERY_VARIANT = os.environ.get("HANDRAIL_TEST_VARIANTS") == "all"
ran = defaultdict(set)  # driver: names of tests that passed


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(capability): a test of the contract for drivers that have it")
    also = "also(*variants): a test of the contract that variants of a driver are tried with"
    config.addinivalue_line("markers", also)
    config.addinivalue_line("markers", "lacks(capability): a test of the contract for drivers that do not have it")


def drivers_for(marks) -> list[str]:
    marks = [*marks]
    also = [*VARIANTS] if EVERY_VARIANT else [each for mark in marks if mark.name == "also" for each in mark.args]
    names = [*TABLE, *also]
    wanted = {(mark.args[0], mark.name == "needs") for mark in marks if mark.name in ("needs", "lacks")}
    return [name for name in names if all(bool(getattr(capabilities_of(name), what)) is has for what, has in wanted)]


def pytest_generate_tests(metafunc):
    if "driver_name" in metafunc.fixturenames:
        metafunc.parametrize("driver_name", drivers_for(metafunc.definition.iter_markers()))


@pytest.hookimpl(tryfirst=True)  # before -k leaves any out
def pytest_collection_modifyitems(config, items):
    if config.getoption("lf", False):
        return  # only what failed was collected
    found = defaultdict(set)
    marks = {}
    for item in items:
        if item.path.as_posix().endswith(CONTRACT) and item.originalname not in NOT_OF_ONE_DRIVER:
            found[item.originalname].add(item.callspec.params.get("driver_name") if hasattr(item, "callspec") else None)
            marks[item.originalname] = [*item.iter_markers()]
    undeclared = [name for name, drivers in found.items() if drivers != set(drivers_for(marks[name]))]
    if undeclared:
        raise pytest.UsageError(
            f"These tests of the contract leave out drivers for another reason than a capability: {undeclared}"
        )


def pytest_runtest_logreport(report):
    path, _, name = report.nodeid.partition("::")
    if path.endswith(CONTRACT) and report.when == "call" and report.passed and "[" in name:
        test, _, params = name.rstrip("]").partition("[")
        driver = next((driver for driver in (*TABLE, *VARIANTS) if driver in params.split("-")), None)
        ran[driver].add(test)


def pytest_terminal_summary(terminalreporter, config):
    if not ran or "HANDRAIL_TEST_REQUIRE" not in os.environ:  # set by .ci/run
        return
    terminalreporter.section("the contract, by driver")
    everything = set().union(*ran.values())
    for driver, names in sorted(ran.items()):
        terminalreporter.write_line(f"{driver}: {len(names)}")
        for name in sorted(names):
            terminalreporter.write_line(f"  {name}")
        for name in sorted(everything - names):
            terminalreporter.write_line(f"  not: {name}")

"""The order in which tests run: files that take long first, long tests last, and which start once time is up.

With pytest-xdist a file is the unit of work, so that what a module shares is started once; its long tests are a second
unit.
"""

import os
import random
import time

import pytest

from tests.support.rings import TESTS

# Files whose tests that are not long take long together, the longest first. Left to the alphabet, or to the order of
# pytest-xdist (most tests first), one is begun last, and the others wait for it. Emulated guests and browsers take
# turns: three guests at once would leave two processors to nobody else.
LONGEST = [
    "contract/test_schema.py",
    "workspaces/drivers/test_contract.py",
    "workspaces/kubernetes/test_warm_pools.py",
    "workspaces/kubernetes/test_lost_lead.py",
    "browser/test_every_page.py",
    "approvals/connect/test_connect_folder.py",
    "workspaces/envelope/test_hostile.py",
    "workspaces/envelope/test_names.py",
    "approvals/actions/test_rehearsal_crashes.py",
    "workspaces/test_microvm.py",
    "dashboard/test_two_at_once.py",
    "approvals/actions/test_rehearsals_in_folders.py",
    "workspaces/test_life.py",
    "workspaces/code_hosts/test_pull_requests.py",
    "workspaces/terminals/test_reconnecting.py",
    "workspaces/test_idle.py",
    "workspaces/terminals/test_in_a_browser.py",
    "browser/test_the_loop.py",
    "approvals/agents/test_contract.py",
    "approvals/actions/test_rehearsal_crashes_in_folders.py",
    "browser/test_a_leads_day.py",
    "browser/test_three_taps.py",
    "faults/test_kill_points.py",
    "workspaces/microvm/test_memory.py",
    "contract/test_roles.py",
    "workspaces/test_down.py",
    "dashboard/test_backup.py",
    "approvals/door/test_every_verb.py",
    "approvals/test_nul.py",
    "pages/test_every_url.py",
    "pages/test_every_changelist.py",
    "pages/test_alike.py",
    "pages/test_form_fields.py",
    "dashboard/test_up.py",
    "faults/test_a_life_killed.py",
    "workspaces/terminals/test_on_a_phone.py",
    "workspaces/door/test_unheld.py",
    "workspaces/test_fork_bomb.py",
    "faults/test_archiving_killed.py",
    "workspaces/egress/test_claude_code.py",
    "pages/display/test_display_payloads.py",
    "approvals/test_races.py",
    "dashboard/test_servers.py",
    "approvals/agents/claude_code/test_outages.py",
    "faults/test_killed_parts.py",
    "approvals/policy/test_corpus.py",
    "approvals/agents/claude_code/test_gate.py",
    "dashboard/frontend/test_build.py",
    "faults/test_two_hosts.py",
    "approvals/test_crashes.py",
    "dashboard/test_demo.py",
    "dashboard/test_fortnight.py",
    "workspaces/terminals/test_flood.py",
    "faults/test_full_disk.py",
    "pages/test_invitations.py",
    "workspaces/test_docker.py",
    "approvals/agents/claude_code/test_connected_folder.py",
    "dashboard/test_supervisor.py",
    "workspaces/secrets/test_canaries.py",
    "contract/test_bad_input.py",
    "workspaces/test_leaving.py",
    "workspaces/test_store_identity.py",
    "workspaces/test_stopping.py",
    "faults/test_a_push_killed.py",
    "workspaces/egress/test_workspace.py",
    "workspaces/test_retention_year.py",
    "workspaces/egress/test_packages.py",
    "workspaces/drivers/test_sandbox.py",
    "workspaces/egress/test_own_loopback.py",
    "workspaces/test_files.py",
    "workspaces/test_ephemeral.py",
]
SEED = "HANDRAIL_TEST_SEED"
LONG_TESTS = "handrail/long"  # in pytest's cache, where the workers of pytest-xdist leave it for who schedules
OUT_OF_TIME = "the time for such tests is up"
HEAVY = {"product", "browser", "engine", "guest", "claude", "agents"}  # marks of tests that start one of these


def pytest_addoption(parser):
    parser.addoption(
        "--long-until", type=float, metavar="EPOCH", help="start no long test after this time, in seconds since 1970"
    )
    parser.addoption("--heavy-until", type=float, metavar="EPOCH", help="the same for tests that start a product")


def pytest_configure(config):
    os.environ.setdefault(SEED, str(random.randrange(1 << 32)))  # the processes of pytest-xdist inherit it


@pytest.hookimpl(trylast=True)  # after tests/support/rings.py has set the marks
def pytest_collection_modifyitems(config, items):
    turn = {TESTS / name: number for number, name in enumerate(LONGEST)}
    others = list(dict.fromkeys(item.path for item in items if item.path not in turn))
    # By chance, so that what the time of one run is too short for has its turn in another.
    first = random.Random(os.environ[SEED]).randrange(len(others) or 1) if config.getoption("--heavy-until") else 0
    turn |= {path: len(turn) + number for number, path in enumerate(others[first:] + others[:first])}

    def place(item):
        if not is_long(item):
            return False, turn[item.path]
        return True, random.Random(f"{os.environ[SEED]} {item.nodeid.partition('::')[0]}").random()

    items.sort(key=place)
    if hasattr(config, "workerinput") and hasattr(config, "cache"):
        config.cache.set(LONG_TESTS, [item.nodeid for item in items if is_long(item)])


def is_long(item) -> bool:
    return item.get_closest_marker("long") is not None


def is_heavy(item) -> bool:
    return any(mark.name in HEAVY for mark in item.iter_markers())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if item.config.getoption("lf", False):
        return
    for option, holds in (("--long-until", is_long), ("--heavy-until", is_heavy)):
        until = item.config.getoption(option)
        if until is not None and time.time() > until and holds(item):
            pytest.skip(OUT_OF_TIME)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # a plugin, which a run can do without

    class LongTestsApart(LoadFileScheduling):
        """A file is a unit of work, and its long tests are another one."""

        def schedule(self):
            self.long = set(config.cache.get(LONG_TESTS, []))
            super().schedule()

        def _split_scope(self, nodeid):
            return f"{super()._split_scope(nodeid)}{' (long)' * (nodeid in self.long)}"

    return LongTestsApart(config, log)

"""Which ring a test belongs to: `make check`, `make test`, `make test-all` (`--ring`), each with all of the one before.

Most of it follows from what a test uses; lists below name what only a clock tells. Paths are below `tests/`.
"""

import functools
import gc
import inspect
import sys
from collections import Counter
from pathlib import Path

MARKS = {
    "product": "runs the whole product as processes",
    "browser": "runs Chromium or Firefox",
    "engine": "runs containers on a Docker engine",
    "guest": "runs a microVM",
    "bucket": "runs an S3 server",
    "kubernetes": "runs a Kubernetes cluster",
    "claude": "runs the real Claude Code",
    "agents": "runs the real programs of agents",
    "database": "asks the test database",
    "slow": "is not in `make check`",
    "further": "is a third or later case of a test that asks the database, and not in `make check`",
    "long": "is in `make test-all` only",
}
FIXTURES = {
    "product": "product",
    "new_product": "product",
    "crowded": "product",
    "both_hosts": "product",
    "chromium": "browser",
    "docker": "engine",
    "engine": "engine",
    "kubernetes": "kubernetes",
    "on_cluster": "kubernetes",
    "pod": "kubernetes",
    "claude": "claude",
    "real_agents": "agents",
    "s3": "bucket",
}
# A test module that uses something of these modules.
MODULES = {
    "tests.support.product": "product",
    "tests.faults.armed_product": "product",
    "tests.support.engine": "engine",
    "tests.support.chromium": "browser",
    "tests.support.firefox": "browser",
}
DRIVERS = {
    "docker": "engine",
    "gvisor": "engine",
    "microvm": "guest",
    "bucket": "bucket",
    "kubernetes": "kubernetes",
    "gvisor_pod": "kubernetes",
    "pod_of_host_users": "kubernetes",
}  # where a test is done for several
FOLDERS = {
    "faults": "product",
    "approvals/race": "product",
    "approvals/agents/claude_code": "product",
    "workspaces/microvm": "guest",
}
FILES = {
    "workspaces/egress/test_guest.py": "guest",
    "faults/test_a_checkpoint_killed.py": "guest",
    "faults/test_a_sleep_killed.py": "guest",
    "pages/test_manifest_width.py": "browser",
    "pages/test_pictures_taken.py": "browser",
    "workspaces/test_microvm.py": "guest",
}
# Guests are long, but for these: made and forked, paused with its memory, its one way out, what an approval opens.
GUESTS_IN_TEST = (
    "workspaces/envelope/test_names.py::test_each_verb_is_possible_at_each_place_and_changes_nothing_beside_it[microvm-/home/agent]",
    "workspaces/microvm/test_memory.py::test_what_runs_goes_on_and_no_file_differs",
    "workspaces/microvm/test_network.py::test_a_listed_host_is_reached_and_nothing_else",
    "workspaces/test_microvm.py::test_a_guest_from_its_making_to_its_fork",
)
# Many processes, rounds or files of what a shorter test beside them does once.
LONG = (
    "approvals/agent_runs/code_host/test_with_real_agents.py",
    "approvals/agents/claude_code/test_hostile_calls.py",
    "dashboard/test_demo.py::test_a_person_may_take_long_and_can_stop_it",
    "dashboard/test_through_nginx.py",
    "workspaces/drivers/test_contract.py::test_all_of_this_holds_for_an_ordinary_user",
    "approvals/actions/test_rehearsal_at_size.py",
    "approvals/actions/test_rehearsals_in_folders.py::test_ten_thousand_rebuilt_files_become_what_was_shown",
    "approvals/actions/test_rehearsals.py::test_folders_that_are_closed_or_very_deep_are_removed",
    "approvals/test_races.py::test_sixteen_processes_never_see_a_locked_database",
    "approvals/policy/test_corpus.py::test_mutations_change_nothing",
    "approvals/race/test_crowd.py",
    "workspaces/store/test_bucket_killed.py",
    "workspaces/store/test_watch.py::test_all_of_this_holds_for_an_ordinary_user",
    "workspaces/store/test_watch_property.py::test_an_ordinary_user_has_the_same",
    "workspaces/terminals/test_flood.py::test_two_hundred_megabytes_beside_a_viewer_that_stalls",
)
# Of each parametrized test in these, `make test` does the first case: one kill point, one width, one kind of disk.
FIRST_CASE = (
    "browser/",
    "approvals/agent_runs/test_forty_calls.py",
    "approvals/agent_runs/test_real_agents.py",
    "approvals/agent_runs/test_stand_ins.py",
    "approvals/agents/claude_code/test_outages.py",
    "approvals/agents/claude_code/test_questions.py",
    "approvals/connect/test_connect_folder.py",
    "approvals/actions/test_rehearsal_crashes.py",
    "contract/test_schema.py",
    "faults/",
    "dashboard/test_backup.py",
    "dashboard/test_two_at_once.py",
    "workspaces/envelope/test_hostile.py",
    "workspaces/store/test_crash.py",
    "workspaces/store/test_full_disk.py",
    "workspaces/terminals/test_in_a_browser.py",
    "workspaces/terminals/test_on_a_phone.py",
    "workspaces/test_down.py",
    "workspaces/test_fork_bomb.py",
    "workspaces/test_life.py",
    "workspaces/test_rounds.py",
)
# What takes more than half a second for each save: whole walks over pages, texts or git's own programs.
SLOW = (
    "approvals/agent_runs/definitions/test_letta.py",
    "approvals/audit/test_event_words.py::test_each_event_has_words",
    "approvals/agent_runs/model_relay/test_bodies.py::test_what_the_providers_publish_is_listed",
    "approvals/hooks/test_command_hook.py",
    "approvals/test_own_programs.py",
    "approvals/test_races.py",
    "approvals/actions/test_scopes_say_what_they_cover.py",
    "dashboard/sso/test_links_and_settings.py",
    "dashboard/test_fortnight.py",
    "dashboard/test_json_readers.py",
    "dashboard/test_outage.py",
    "dashboard/test_patterns.py",
    "dashboard/test_run_log.py",
    "pages/display/test_every_step.py",
    "pages/languages/",
    "pages/test_absent_keys.py",
    "pages/test_alike.py",
    "pages/test_side_by_side.py",
    "pages/test_changed_paths.py",
    "pages/test_changes.py",
    "pages/test_every_url.py",
    "pages/test_form_fields.py",
    "pages/test_query_counts.py",
    "pages/test_search.py",
    "pages/test_search_texts.py",
    "workspaces/code_hosts/test_hosts.py",
    "workspaces/drivers/test_box.py",
    "workspaces/drivers/test_contract.py",
    "workspaces/drivers/test_sandbox.py",
    "workspaces/shim/test_command.py",
    "workspaces/shim/test_terminal.py",
    "workspaces/test_deploy_keys.py",
    "workspaces/test_merge_step.py",
    "workspaces/test_pushing.py",
    "workspaces/test_retention_year.py",
    "workspaces/test_submodules.py",
    "approvals/policy/test_differential.py",
    "dashboard/frontend/test_build.py",
    "contract/test_shapes.py",
    "dashboard/test_supervisor.py",
    "workspaces/drivers/test_checkpoint_killed.py",
    "workspaces/store/test_concurrency.py",
    "workspaces/envelope/test_hostile.py",
    "workspaces/store/test_crash.py",
    "workspaces/store/test_full_disk.py",
    "workspaces/store/test_merge_as_git.py",
    "workspaces/store/test_properties.py",
)
CASES_IN_CHECK = 2  # of a test that asks the database
NOT_IN = {
    "check": {
        "product",
        "browser",
        "engine",
        "guest",
        "bucket",
        "kubernetes",
        "claude",
        "agents",
        "slow",
        "further",
        "long",
    },
    "test": {"long", "kubernetes"},  # a cluster has a target of its own
    "all": set(),
}
TESTS = Path(__file__).resolve().parents[1]


def pytest_addoption(parser):
    parser.addoption("--ring", choices=sorted(NOT_IN), default="all", help="check, test or all (the default)")
    parser.addoption("--cases", type=int, metavar="N", help="at most N cases of each parametrized test")


def pytest_configure(config):
    for mark, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning} (set by tests/support/rings.py)")


def pytest_sessionfinish(session, exitstatus):
    """Keep pytest's exit status, which `make` does not pass on, for `.ci/run`."""
    if hasattr(session.config, "cache") and not hasattr(session.config, "workerinput"):
        session.config.cache.set("handrail/exit_status", int(exitstatus))


def pytest_collection_modifyitems(config, items):
    met = Counter()
    for item in items:
        for mark in _marks(item, met):
            item.add_marker(mark)
    marks = NOT_IN[config.getoption("--ring")]
    left_out = [item for item in items if marks & {mark.name for mark in item.iter_markers()}]
    left_out += _further_cases(items, config.getoption("--cases"))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        outside = set(left_out)
        items[:] = [item for item in items if item not in outside]


def pytest_collection_finish():
    """Leave what is loaded out of later collections of garbage: it lives as long as the process."""
    gc.collect()
    gc.freeze()


def _further_cases(items, most: int | None) -> list:
    """Return the cases of each parametrized test beyond the first `most`."""
    met, further = Counter(), []
    for item in items:
        test = item.nodeid.partition("[")[0]
        met[test] += 1
        if most is not None and met[test] > most:
            further.append(item)
    return further


def _fixtures(item):
    definitions = getattr(item, "_fixtureinfo", None) and item._fixtureinfo.name2fixturedefs
    return {last.func for name, (*_, last) in (definitions or {}).items() if name != "prepared_home"}  # starts nothing


@functools.cache
def _marks_of_fixture(function) -> frozenset[str]:
    names = getattr(inspect.unwrap(function), "__code__", None) and inspect.unwrap(function).__code__.co_names
    return _marks_of([function.__globals__.get(name) for name in names or ()])


@functools.cache
def _marks_of_module(name: str) -> frozenset[str]:
    return _marks_of(vars(sys.modules[name]).values(), but=name)


def _marks_of(values, but: str = "") -> frozenset[str]:
    """Return the marks of what these belong to, also by way of another module of the tests."""
    modules = {getattr(value, "__module__", None) or "" for value in values} - {but}
    marks = {MODULES[module] for module in modules & MODULES.keys()}
    shared = {name for name in modules - MODULES.keys() if name.startswith("tests.") and "conftest" not in name}
    return frozenset(marks).union(*(_marks_of_module(name) for name in shared if name in sys.modules))


def _marks(item, met: Counter) -> set[str]:
    name = f"{item.path.relative_to(TESTS)}::{item.name}"
    test = name.partition("[")[0]
    marks = {FIXTURES[fixture] for fixture in getattr(item, "fixturenames", ()) if fixture in FIXTURES}
    if item.get_closest_marker("django_db") or "db" in getattr(item, "fixturenames", ()):
        marks.add("database")
    marks |= _marks_of_module(item.module.__name__).union(*map(_marks_of_fixture, _fixtures(item)))
    params = getattr(item, "callspec", None) and item.callspec.params.values()
    marks |= {DRIVERS[value] for value in params or () if isinstance(value, str) and value in DRIVERS}
    marks |= {mark for folder, mark in FOLDERS.items() if name.startswith(f"{folder}/")}
    marks |= {mark for file, mark in FILES.items() if name.startswith(f"{file}::")}
    if ("guest" in marks and not name.startswith(GUESTS_IN_TEST)) or name.startswith(LONG):
        marks.add("long")
    if name.startswith(FIRST_CASE) and met[test]:
        marks.add("long")
    if name.startswith(SLOW):
        marks.add("slow")
    if "long" not in marks:
        met[test] += 1
    if "database" in marks and met[test] > CASES_IN_CHECK:
        marks.add("further")
    return marks

"""What is suggested to be trusted is never wider than what calls asked about."""

from hypothesis import given
from hypothesis import strategies as st

from approvals.past.trust import CODE_HOST_READS, folders, place, program, trusting
from approvals.policy import default_policy, read_policy

NAMES = st.sampled_from(["a", "b", "ab", "data", "data2", ".x", "ü", "src"])
PATHS = st.lists(NAMES, min_size=1, max_size=10).map(lambda parts: "/" + "/".join(parts))
CALLS = st.lists(st.tuples(st.lists(PATHS, max_size=4).map(tuple), st.integers(1, 50)), max_size=12)


def is_below(path, folder):
    return f"{path}/".startswith(f"{folder}/")


@given(CALLS)
def test_each_folder_holds_a_path_that_was_asked_about_and_counts_the_calls_that_did(calls):
    for folder, times in folders(calls):
        concerned = [number for paths, number in calls if any(is_below(path, folder) for path in paths)]
        assert concerned
        assert times == sum(concerned)


@given(CALLS)
def test_no_folder_is_offered_where_one_in_it_covers_the_same_calls(calls):
    seen = {path for paths, _ in calls for path in paths}
    for folder, times in folders(calls):
        deeper = {path for path in seen if is_below(path, folder) and path != folder}
        below = {"/".join(path.split("/")[: folder.count("/") + 2]) for path in deeper}
        for child in below if folder.count("/") < 8 else ():
            covered = sum(number for paths, number in calls if any(is_below(path, child) for path in paths))
            assert covered < times


@given(CALLS)
def test_no_folder_is_as_wide_as_the_machine_or_a_folder_of_its_root(calls):
    assert all(folder.count("/") >= 2 for folder, _ in folders(calls))


@given(
    st.lists(st.sampled_from(["/srv/data", "/opt/tools/x", "/srv/other"]), max_size=3),
    st.lists(st.sampled_from(["mise", "run.sh", "tool"]), max_size=3),
    st.booleans(),
)
def test_a_text_that_trusts_what_is_suggested_trusts_that_and_nothing_else(places, names, code_host):
    file = {"path": "/opt/project/x", "sha256": "0" * 64}
    more = [*map(place, places), *(program(name, file) for name in names), *([CODE_HOST_READS] if code_host else [])]
    before, after = read_policy(default_policy()), read_policy(trusting(default_policy(), *more))
    assert set(after.trust.places) == {*before.trust.places, *places}
    assert {each.name for each in after.trust.programs} == {*(each.name for each in before.trust.programs), *names}
    assert all(each.sha256 == file["sha256"] for each in after.trust.programs)
    assert after.trust.code_host == (True if code_host else before.trust.code_host)
    assert (after.mode, after.rules, after.blocks) == (before.mode, before.rules, before.blocks)

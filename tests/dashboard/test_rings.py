"""The lists of files that the rings and the order of the tests go by."""

import pytest

from tests.support import order, rings


@pytest.mark.parametrize(
    "name",
    [
        *rings.FOLDERS,
        *rings.FILES,
        *rings.GUESTS_IN_TEST,
        *rings.LONG,
        *rings.FIRST_CASE,
        *rings.SLOW,
        *order.LONGEST,
    ],
)
def test_each_name_is_that_of_a_file_and_of_a_test_in_it(name):
    file, _, test = name.partition("::")
    path = rings.TESTS / file
    assert path.exists()
    assert not test or f"def {test.partition('[')[0]}(" in path.read_text()

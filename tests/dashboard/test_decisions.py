"""Decision records have one form, and the index says of each what its page says."""

import re

import pytest

from tests.support import CHECKOUT

FOLDER = CHECKOUT / "docs" / "decisions"
PAGES = {path.name: path.read_text() for path in sorted(FOLDER.glob("[0-9]*.md"))}
ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((\S+\.md)\) \| (\d{4}-\d\d-\d\d) \| (.+) \|$", re.MULTILINE)
ROWS = {row[2]: row for row in ROW.findall((FOLDER / "README.md").read_text())}
SUCCESSOR = r"\[decision (\d+)\]\(\d{4}-[\w-]+\.md\)"
STATUS = re.compile(
    rf"(?:Superseded by (?P<by>{SUCCESSOR}(?:,? (?:and )?{SUCCESSOR})*), \d{{4}}-\d\d-\d\d\. )?"
    r"Accepted, (?P<date>\d{4}-\d\d-\d\d)\.(?: .+)?"
)


def status_of(page: str) -> re.Match:
    return STATUS.fullmatch(page.splitlines()[2])


def test_the_index_lists_each_decision_once_in_order():
    assert set(ROWS) == set(PAGES)
    numbers = [int(row[0]) for row in ROWS.values()]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_begins_with_its_number_its_status_and_its_date(name):
    number, title, _, date, status = ROWS[name]
    first, blank, line = PAGES[name].splitlines()[:3]
    assert (first, blank) == (f"# {number}. {title}", "")
    said = status_of(PAGES[name])
    assert said, line
    assert said["date"] == date
    assert name.startswith(f"{int(number):04}-")
    successors = re.findall(SUCCESSOR, said["by"] or "")
    assert status.split(";")[0] == (f"Superseded by {' and '.join(successors)}" if successors else "Accepted")


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_has_no_headings_but_its_title(name):
    assert re.findall(r"^##+ .*$", PAGES[name], re.MULTILINE) == []


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if "Superseded by" in page])
def test_a_decision_that_was_superseded_names_a_page_that_names_it(name):
    number = int(name[:4])
    for successor in re.findall(SUCCESSOR, status_of(PAGES[name])["by"]):
        page = next(page for other, page in PAGES.items() if other.startswith(f"{int(successor):04}-"))
        assert re.search(rf"[Dd]ecision {number}\b", page)

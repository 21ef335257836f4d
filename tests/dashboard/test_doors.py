"""docs/README.md leads to each page by one door, and each page says at once what it is about and for whom."""

import re

import pytest

from tests.support import CHECKOUT

FOLDER = CHECKOUT / "docs"
INDEX = (FOLDER / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"}
DOORS = dict(re.findall(r"^## (.+)\n\n((?:(?!## ).*\n)+)", INDEX, re.MULTILINE))
ENTRY = re.compile(r"^(\d+)\. \[(.+)\]\((\S+)\): (.+\.)$", re.MULTILINE)
READER = re.compile(r"\b(reviewers|leads|admins|operators|auditors|developers|everybody)\b", re.IGNORECASE)
# A paragraph that begins so makes the reader look for its subject in the one before, or at its end.
LATE = re.compile(r"(?:It|They|That|This|Those|These|So|What|Who|Whoever)\b(?! page)")
PRONOUN = re.compile(
    r"(it|its|they|this|these|that|those|there|what|whatever|whoever|so|here|how|one)\b", re.IGNORECASE
)


def opening(page: str) -> str:
    """Return the first sentence of `page`, in one line."""
    paragraph = " ".join(page.split("\n\n")[1].split())
    return re.match(r".+?[.:](?= |$)|.+", paragraph).group()


def test_there_are_four_doors_and_the_table_names_each():
    assert list(DOORS) == ["Reviewing", "Leading", "Running", "Connecting an agent"]
    named = re.findall(r"^\| \[(.+)\]\(#([\w-]+)\) \| .+ \|$", INDEX, re.MULTILINE)
    assert named == [(door, door.lower().replace(" ", "-")) for door in DOORS]


@pytest.mark.parametrize("door", DOORS)
def test_a_door_says_whom_it_is_for_and_numbers_its_pages(door):
    said, _, pages = DOORS[door].partition("\n\n")
    assert said.startswith("You ")
    numbers = [int(number) for number, _, _, _ in ENTRY.findall(pages)]
    assert numbers == list(range(1, len(pages.strip().splitlines()) + 1))


def test_each_page_stands_behind_one_door_under_its_title():
    entries = [(file, title) for _, title, file, _ in ENTRY.findall(INDEX)]
    assert sorted(entries) == [(name, page.splitlines()[0].removeprefix("# ")) for name, page in PAGES.items()]


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"architecture.md"}))  # which begins with what it draws
def test_a_page_begins_with_its_subject_and_its_reader(name):
    first = opening(PAGES[name])
    assert not PRONOUN.match(first), first
    assert READER.search(first), first


@pytest.mark.parametrize("name", PAGES)
def test_a_paragraph_names_its_subject(name):
    prose = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    first = [" ".join(paragraph.split()[:6]) for paragraph in prose.split("\n\n")]
    assert [words for words in first if LATE.match(words)] == []

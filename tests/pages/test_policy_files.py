"""The pages of a team's policy files: what each says and would newly allow, and a lead who adopts it."""

import hashlib

import pytest

from approvals.models import PolicyFile
from dashboard.database import clock
from dashboard.models import Event

LOOSE = 'low = ["Bash(printenv PATH)"]\n'


@pytest.fixture
def file(team, workspace):
    """`file(text)`: this content was seen in the workspace."""

    def seen(text=LOOSE, **more):
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        about = {"team": team, "workspace": workspace, "repository": "git.example/shop/web", "seen_at": clock.now()}
        return PolicyFile.objects.create(text=text, sha256=sha256, **about, **more)

    return seen


def test_the_list_says_what_each_does(file, vera, browser_of, read):
    file()
    file("high = [", problem="The policy is not valid TOML")
    file("# adopted\n", is_adopted=True)
    text = read(browser_of(vera), "/policy/files/")
    assert text.count("git.example/shop/web") == 3
    assert [each in text for each in ("only tightens", "can't be read", ">adopted<")] == [True] * 3
    assert 'href="/policy/files/' in read(browser_of(vera), "/policy/")


def test_the_policy_page_names_no_list_that_is_empty(vera, browser_of, read, team):
    assert "/policy/files/" not in read(browser_of(vera), "/policy/")


def test_a_lead_sees_what_it_newly_allows_and_adopts_it(file, lena, browser_of, read):
    seen = file()
    text = read(browser_of(lena), f"/policy/files/{seen.pk}/")
    assert "1 class of calls would newly run, or need fewer people." in text
    assert "printenv PATH" in text
    assert "Not saved yet" not in text
    page = browser_of(lena).post(f"/policy/files/{seen.pk}/adopt/", {"sha256": seen.sha256}, follow=True)
    seen.refresh_from_db()
    assert (seen.is_adopted, seen.adopted_by, "Adopted by lena" in page.content.decode()) == (True, lena, True)
    event = Event.objects.get(verb="policy.file_adopted")
    assert event.data == {"repository": "git.example/shop/web", "sha256": seen.sha256}
    browser_of(lena).post(f"/policy/files/{seen.pk}/let-go/")
    seen.refresh_from_db()
    assert (seen.is_adopted, seen.adopted_by) == (False, None)


def test_another_content_than_the_one_that_was_shown_is_not_adopted(file, lena, browser_of):
    seen = file()
    page = browser_of(lena).post(f"/policy/files/{seen.pk}/adopt/", {"sha256": "0" * 64}, follow=True)
    seen.refresh_from_db()
    assert (seen.is_adopted, "Nothing was adopted." in page.content.decode()) == (False, True)


def test_a_reviewer_reads_it_and_does_not_adopt_it(file, bob, browser_of, read):
    seen = file()
    assert "Adopt this content" not in read(browser_of(bob), f"/policy/files/{seen.pk}/")
    assert browser_of(bob).post(f"/policy/files/{seen.pk}/adopt/", {"sha256": seen.sha256}).status_code == 403


def test_a_file_that_cannot_be_read_is_not_adopted(file, lena, browser_of, read):
    seen = file("high = [", problem="The policy is not valid TOML")
    text = read(browser_of(lena), f"/policy/files/{seen.pk}/")
    assert "every call there needs approval" in text
    assert "Adopt this content" not in text
    browser_of(lena).post(f"/policy/files/{seen.pk}/adopt/", {"sha256": seen.sha256})
    seen.refresh_from_db()
    assert seen.is_adopted is False


def test_a_stranger_finds_nothing(file, mallory, browser_of):
    assert browser_of(mallory).get(f"/policy/files/{file().pk}/").status_code == 404

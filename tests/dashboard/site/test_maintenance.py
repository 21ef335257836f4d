"""A maintenance banner: set in the Django admin, on every page and in a header of the API for its time."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, InterfaceError, OperationalError, connection

from dashboard.database import clock
from dashboard.models import Banner, Event

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def announce(text="Upgrade at noon", begins=-HOUR, ends=HOUR) -> Banner:
    return Banner.objects.create(text=text, from_at=clock.now() + begins, until_at=clock.now() + ends)


def test_pages_and_the_api_say_it_for_its_time(alice, browser_of, api, token_of):
    banner = announce()
    page = browser_of(alice).get("/").content.decode()
    header = api(token_of(alice)).get("/api/v1/me")["Handrail-Maintenance"]
    until = banner.until_at.isoformat(timespec="seconds")
    assert ("Upgrade at noon" in page, header) == (True, f"Upgrade at noon; until={until}")


@pytest.mark.parametrize(("begins", "ends"), [(-2 * HOUR, -HOUR), (HOUR, 2 * HOUR)])
def test_no_banner_is_shown_before_and_after_its_time(alice, browser_of, api, token_of, begins, ends):
    announce(begins=begins, ends=ends)
    assert "Upgrade at noon" not in browser_of(alice).get("/").content.decode()
    assert "Handrail-Maintenance" not in api(token_of(alice)).get("/api/v1/me")


def test_any_text_is_a_header_and_no_html(alice, browser_of, api, token_of):
    announce("<b>Öl</b>\r\nX-Evil: 1")
    answer = api(token_of(alice)).get("/api/v1/me")
    assert answer["Handrail-Maintenance"].startswith("%3Cb%3E%C3%96l%3C%2Fb%3E%0D%0AX-Evil: 1; until=")
    assert "<b>Öl" not in browser_of(alice).get("/").content.decode()


def test_an_operator_sets_it_and_each_log_has_it(team, other_team, browser_of):
    client = browser_of(get_user_model().objects.create_superuser("root"))
    moment = clock.now()
    form = {"text": "Upgrade", "from_at_0": moment.date(), "from_at_1": "00:00:00"}
    form |= {"until_at_0": (moment + timedelta(days=1)).date(), "until_at_1": "23:00:00"}
    assert client.post("/admin/dashboard/banner/add/", form).status_code == 302
    found = Event.objects.filter(verb="banner.added").values_list("team__slug", "actor_label")
    assert sorted(found) == [("other", "root"), ("payments", "root")]


def test_a_banner_that_ends_before_it_begins_is_refused():
    with pytest.raises(IntegrityError):
        announce(begins=HOUR, ends=-HOUR)


def refusing(error, words: str = ""):
    """A database that fails with the error in each query that has these words."""

    def refuse(execute, sql, params, many, context):
        if words in sql:
            raise error
        return execute(sql, params, many, context)

    return connection.execute_wrapper(refuse)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_an_answer_of_the_api_stays_what_it_is_when_the_database_fails_at_the_banner(alice, api, token_of, error):
    client = api(token_of(alice))
    with refusing(error("the server closed the connection"), "dashboard_banner"):
        assert client.get("/api/v1/me").status_code == 200
        assert client.get("/api/v1/workspaces/none").status_code == 404


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
@pytest.mark.parametrize("path", ["/api/v1/me", "/api/v1/workspaces", "/api/v1/actions", "/api/v1/events"])
def test_the_api_says_503_as_a_problem_when_the_database_is_away(alice, api, token_of, path, error):
    client = api(token_of(alice))
    with refusing(error("the server closed the connection")):
        answer = client.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")
    assert "Ask again." in answer.json()["detail"]

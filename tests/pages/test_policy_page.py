"""The Policy page: which policy holds where, edits that cross, rules that can never match."""

import pytest

from approvals.evaluation import policies
from dashboard.models import Membership
from dashboard.people.access import caller_of
from tests.pages.conftest import tight
from workspaces.models import Environment


def test_the_second_of_two_leads_is_refused_with_the_difference_and_can_save_after_it(lena, team, browser_of):
    first = policies.active(team.pk)
    start = first.text.split("[[tests]]")[0]
    mine, theirs = start + "# mine\n", start + "# theirs\n"
    page = browser_of(lena)
    page.post("/policy/edit/", {"text": theirs, "base": "1"})
    refused = page.post("/policy/edit/", {"text": mine, "base": "1"}).content.decode()
    assert policies.active(team.pk).text == theirs
    assert "lena saved version 2 while you edited version 1. Nothing was saved." in refused
    assert "Changed by someone else" in refused
    assert "# theirs" in refused
    assert "# mine" in refused
    assert '<input type="hidden" name="base" value="2"' in refused
    page.post("/policy/edit/", {"text": mine, "base": "2"})
    assert (policies.active(team.pk).number, policies.active(team.pk).text) == (3, mine)


def test_the_first_version_that_handrail_made_meanwhile_is_no_conflict(lena, team, browser_of):
    policies.active(team.pk)
    browser_of(lena).post("/policy/edit/", {"text": 'mode = "everything"\n', "base": "0"})
    assert policies.active(team.pk).number == 2


def test_the_page_says_which_policy_holds_where_and_edits_each(lena, team, browser_of, read):
    web = Environment.objects.create(team=team, name="web", version=1)
    Environment.objects.create(team=team, name="folder-mine", version=1, driver="folder")
    policies.save('mode = "commands"\nforbidden = ["Bash(npm publish *)"]\n', caller=caller_of(lena), team=team)
    client = browser_of(lena)
    text = read(client, "/policy/")
    assert "Policies in this team" in text
    assert "Environment web" in text
    assert "Folder folder-mine" in text
    data = {"text": 'mode = "everything"\n', "base": "0"}
    assert client.post(f"/policy/edit/?team={team.slug}&environment=web", data).status_code == 302
    assert policies.own(team.pk, "web").text == 'mode = "everything"\n'
    assert policies.active(team.pk).text.startswith('mode = "commands"')
    text = read(client, f"/policy/?team={team.slug}&environment=web")
    assert "Environment web: People are asked before everything." in text
    assert "its own policy, version 1" in text
    assert (
        '<dt>Forbidden by the team</dt><dd><ul class="targets"><li><code class="exact">Bash(npm publish *)</code>'
        in tight(text)
    )
    client.post(f"/policy/edit/?team={team.slug}&environment=web", {"end": "1"})
    assert policies.active(team.pk, web).environment is None


def test_an_environment_of_another_team_has_no_policy_here(lena, team, other_team, browser_of):
    Environment.objects.create(team=other_team, name="theirs", version=1)
    client = browser_of(lena)
    assert client.get(f"/policy/?team={team.slug}&environment=theirs").status_code == 404
    assert client.post(f"/policy/edit/?team={team.slug}&environment=theirs", {"text": "", "base": 0}).status_code == 404
    assert client.get(f"/policy/?team={other_team.slug}").status_code == 404


def test_the_policy_of_each_team_is_reached_from_the_page(lena, team, other_team, browser_of):
    Membership.objects.create(user=lena, team=other_team, role="viewer")
    page = browser_of(lena).get("/policy/").content.decode()
    assert f'href="/policy/?team={other_team.slug}"' in page
    assert browser_of(lena).get(f"/policy/?team={other_team.slug}").context["team"] == other_team


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('low = ["bash(ls)"]', "the tool is written Bash"),
        ('forbidden = ["Bash(curl * | sh)"]', "none holds"),
        ('low = ["WebFetch(example.com)"]', "WebFetch(domain:example.com)"),
        ('low = ["Edit(src/../x)"]', "paths are compared without"),
        ('low = ["Edit(.git/**)"]', "protected paths always ask"),
        ('low = ["Bash(make * > out)"]', "needs a rule of its own"),
        ('low = ["Bash(git push origin main)"]\nforbidden = ["Bash(git push *)"]', "comes first"),
    ],
)
def test_a_rule_that_can_never_match_is_refused_with_the_reason(line, why, lena, team, browser_of):
    active = policies.active(team.pk)
    response = browser_of(lena).post("/policy/edit/", {"text": line + "\n", "base": "1"})
    assert "can never match" in response.content.decode()
    assert why in response.context["form"].errors["text"][0]
    assert policies.active(team.pk) == active

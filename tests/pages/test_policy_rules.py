"""Rules with conditions by a form: a lead says what belongs to staging and production and what may be done there."""

import pytest

from approvals.evaluation import policies
from approvals.policy import classify, load_policy
from dashboard.people.access import caller_of
from tests.pages.conftest import tight

START = 'mode = "irreversible"\n# ours\nlow = ["Bash(make test)"]\n'
TARGETS = '[targets]\nproduction = ["kube:prod-*"]\nstaging = ["kube:staging"]\n'


@pytest.fixture
def form(team, lena, browser_of):
    """`form(button, value="1", **fields)`: press a button of the page; the draft goes along as in a browser."""
    policies.save(START, caller=caller_of(lena), team=team)
    client, kept = browser_of(lena), {"text": START, "base": "1"}

    def press(button, value="1", **fields):
        page = client.post("/policy/rules/", kept | fields | {button: value})
        if page.context and "draft" in page.context:
            kept["text"] = page.context["draft"].text
        return page

    press.kept = kept
    return press


def sentences(page) -> list[str]:
    return [each.text for each in page.context["draft"].sentences]


def test_the_staging_and_production_policy_is_written_without_a_line_of_text(form, team, agent):
    form("add-target", name="production", entries="kube:prod-*\nhost:db.prod\n")
    form("add-target", name="staging", entries="kube:staging\nbranch:staging")
    form("add-rule", what="writes", target="staging", agent=agent.name, then="low")
    page = form("add-rule", what="writes", target="production", then="critical")
    assert sentences(page) == [
        f"Writes to staging run, for the agent {agent.name}.",
        "Writes to production ask two people, for every agent.",
    ]
    assert policies.active(team.pk).number == 1
    assert form("save", comment="who deploys").status_code == 302
    saved = policies.active(team.pk)
    assert (saved.number, saved.comment) == (2, "who deploys")
    assert saved.text.startswith(START)
    context = {"agent": agent.name}
    found = [
        classify("Bash", {"command": f"kubectl --context {name} apply -f x.yml"}, policy=policy, context=context).tier
        for policy in (load_policy(saved.text),)
        for name in ("staging", "prod-eu", "dev")
    ]
    assert found == ["low", "critical", "high"]


def test_the_pickers_have_what_the_team_has(form, team, agent, workspace):
    page = form("look", text=START + TARGETS)
    choices = {
        name: [value for value, _ in page.context["rule"].fields[name].choices] for name in ("agent", "environment")
    }
    assert choices == {"agent": ["", agent.name], "environment": ["", workspace.environment.name]}
    assert [value for value, _ in page.context["rule"].fields["target"].choices] == ["", "production", "staging"]


def test_what_the_picks_mean_is_said_in_words(form, lena, browser_of):
    picks = {
        "text": START + TARGETS,
        "what": "writes",
        "target": "production",
        "then": "forbidden",
        "hours": "!Mon-Fri 9-17",
    }
    page = browser_of(lena).post("/policy/rules/meaning/", picks)
    assert (
        "Writes to production are forbidden, for every agent, at the hours anything but Mon-Fri 9-17."
        in page.content.decode()
    )


@pytest.mark.parametrize(
    ("button", "fields", "says"),
    [
        (
            "add-rule",
            {"what": "writes", "then": "high"},
            "Choose a target, an agent, an environment, hours, duty or what undoes it.",
        ),
        ("add-rule", {"what": "writes", "then": "low", "hours": "9-17"}, "Choose the target at which they may run."),
        ("add-rule", {"what": "writes", "then": "high", "hours": "late"}, "is no span of hours"),
        ("add-rule", {"what": "writes", "then": "high", "target": "nowhere"}, "not one of the available choices"),
        ("add-target", {"name": "x", "entries": "prod"}, "is not written as kind:name"),
        ("add-target", {"name": "x", "entries": "cluster:prod"}, "is no kind"),
        ("add-target", {"name": "", "entries": "kube:prod"}, "needs a name"),
    ],
)
def test_what_makes_no_policy_is_refused_where_it_was_typed(form, button, fields, says):
    page = form(button, **fields)
    assert says in page.content.decode()
    assert page.context["draft"].text == START


def test_a_rule_is_removed_and_the_rest_of_the_text_stays(form):
    text = (
        START + TARGETS + '[[when]]\ntarget = "staging"\nlow = ["writes"]\n\n[[when]]\nagent = "x"\nhigh = ["calls"]\n'
    )
    page = form("remove", "0", text=text)
    assert sentences(page) == ["All calls ask one person, for the agent x."]
    assert page.context["draft"].text == START + TARGETS + '[[when]]\nagent = "x"\nhigh = ["calls"]\n'


def test_names_that_the_team_does_not_have_are_said(form, team):
    page = form("look", text=START + '[[when]]\nagent = "noone-*"\nenvironment = "!nowhere"\nhigh = ["calls"]\n')
    text = page.content.decode()
    assert "No agent of this team is named noone-*, so a rule for it never decides." in text
    assert "No environment of this team is named nowhere" in text


def test_what_it_changes_for_all_calls_is_shown_before_saving(form, team):
    page = form("newly", text=START + TARGETS + '[[when]]\ntarget = "staging"\nlow = ["writes"]\n')
    text = page.content.decode()
    assert "would newly run, or need fewer people." in text
    assert "Not saved yet." in text
    assert "kubectl apply, at staging" in text
    assert "kubectl --context staging apply -f app.yml" in text
    assert policies.active(team.pk).number == 1


def test_somebody_elses_version_is_not_overwritten(form, team, lena):
    policies.save(START + "# theirs\n", caller=caller_of(lena), team=team)
    page = form("save")
    assert "saved version 2 while you edited version 1. Nothing was saved." in page.content.decode()
    assert policies.active(team.pk).number == 2


def test_a_reviewer_does_not_write_rules(bob, browser_of):
    assert browser_of(bob).get("/policy/rules/").status_code == 403
    assert browser_of(bob).post("/policy/rules/meaning/", {}).status_code == 403


def test_the_policy_page_has_the_sentences_targets_and_a_trial_as_somebody(team, lena, agent, browser_of, read):
    rule = f'[[when]]\ntarget = "production"\nagent = "{agent.name}"\ncritical = ["writes"]\n'
    policies.save(START + TARGETS + rule, caller=caller_of(lena), team=team)
    client = browser_of(lena)
    text = tight(read(client, "/policy/"))
    assert f"Writes to production ask two people, for the agent {agent.name}." in text
    assert '<code class="exact">kube:prod-*</code>' in text
    tried = {"try-command": "kubectl --context prod-eu apply -f x.yml"}
    asked = client.get("/policy/", tried).context["verdict"]
    as_agent = client.get("/policy/", tried | {"try-agent": agent.name}).context["verdict"]
    assert (asked.tier, as_agent.tier) == ("high", "critical")
    assert "It acts at production." in client.get("/policy/", tried).content.decode()
    assert client.get("/policy/", {"try": "ls"}).context["verdict"].tier == "low"


def test_a_trial_says_whether_what_no_snapshot_undoes_can_be_undone_outside(team, lena, browser_of):
    policies.save(START + '[[when]]\nundo = "not"\ncritical = ["calls"]\n', caller=caller_of(lena), team=team)
    client, tried = browser_of(lena), {"try-command": "git push origin feature"}
    chosen = {
        undo: client.get("/policy/", tried | {"try-undo": undo}).context["verdict"] for undo in ("", "outside", "not")
    }
    assert {undo: verdict.tier for undo, verdict in chosen.items()} == {
        "": "critical",
        "outside": "high",
        "not": "critical",
    }

"""The page that shows what becomes of each line of an agent's own rules, and the policy in force written as theirs."""

import json

from approvals.evaluation import policies

SETTINGS = {
    "permissions": {
        "allow": ["Bash(npm test)", "Bash(git *)"],
        "ask": ["Bash(git push *)"],
        "deny": ["Read(secrets/**)"],
        "defaultMode": "acceptEdits",
    }
}


def show(client, text, agent="claude"):
    return client.post("/policy/import/", {"agent": agent, "text": text})


def test_each_line_is_shown_in_order_with_what_it_becomes(team, lena, browser_of):
    page = show(browser_of(lena), json.dumps(SETTINGS))
    assert [(line.line, line.tier, line.rule) for line in page.context["lines"]] == [
        ("allow: Bash(npm test)", "low", "Bash(npm test)"),
        ("allow: Bash(git *)", "", ""),
        ("ask: Bash(git push *)", "high", "Bash(git push *)"),
        ("deny: Read(secrets/**)", "forbidden", "Read(secrets/**)"),
        ('defaultMode: "acceptEdits"', "", ""),
    ]
    text = page.content.decode()
    assert "covers reading, pushing and rewriting alike" in text
    assert "a policy has no setting for it" in text
    assert policies.for_display(team.pk).number == 0  # nothing is saved


def test_what_was_taken_goes_to_the_editor_and_is_saved_there(team, lena, browser_of):
    client = browser_of(lena)
    proposed = show(client, json.dumps(SETTINGS)).context["proposed"]
    page = client.post("/policy/edit/", {"text": proposed, "base": "0", "newly": "1"})
    assert 'id="newly"' in page.content.decode()
    client.post("/policy/edit/", {"text": proposed, "base": "0"})
    rules = policies.checked(policies.active(team.pk))["rules"]
    assert (rules["low"], rules["high"], rules["forbidden"]) == (
        ["Bash(npm test)"],
        ["Bash(git push *)"],
        ["Read(secrets/**)"],
    )
    assert show(client, json.dumps(SETTINGS)).context["proposed"] == ""  # they are there


def test_codex_rules_are_read_and_nothing_of_them_is_run(team, lena, browser_of):
    rules = 'prefix_rule(pattern=["make", "test"], decision="allow")\nprint("x")\n'
    lines = show(browser_of(lena), rules, "codex").context["lines"]
    assert [(line.tier, line.rule or line.why) for line in lines] == [
        ("low", "Bash(make test *)"),
        ("", "only prefix_rule is a rule of a policy"),
    ]


def test_what_cannot_be_read_is_said_at_the_field(team, lena, browser_of):
    page = show(browser_of(lena), "{")
    assert "The settings are not valid JSON" in page.content.decode()
    assert "lines" not in page.context


def test_text_of_a_stranger_shows_its_hidden_characters(team, lena, browser_of):
    page = show(browser_of(lena), json.dumps({"permissions": {"allow": ["Bash(npm test\u202e)"]}}))
    assert "\u202e" not in page.content.decode().partition('id="import-lines"')[2].partition("</section>")[0]


def test_the_policy_is_written_as_an_agents_own_rules(team, lena, browser_of):
    client = browser_of(lena)
    client.post("/policy/edit/", {"text": 'low = ["Bash(npm run *)", "Edit(src/**)"]\n', "base": "0"})
    assert json.loads(client.get("/policy/import/?as=claude").context["written"])["permissions"]["allow"] == [
        "Bash(npm run *)",
        "Edit(src/**)",
    ]
    page = client.get("/policy/import/?as=codex")
    assert 'prefix_rule(pattern=["npm", "run"], decision="allow")' in page.context["written"]
    assert [rule for rule, _ in page.context["not_written"]] == ["Edit(src/**) in low"]


def test_a_reviewer_does_not_see_it(team, bob, browser_of):
    assert browser_of(bob).get("/policy/import/").status_code == 403

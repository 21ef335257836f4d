"""The guide that sets an agent up: its steps are read from what is there, and each is taken on its page."""

import pytest

from approvals.agent_runs import set_up
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from tests.pages.conftest import tight
from workspaces import extensions, secrets
from workspaces.models import Environment, Operation, Phase, Secret
from workspaces.provisioning import agent_programs
from workspaces.services import agent_installs, environments

LEAD = Actor.system("test")
HERE = "/agent-runs/set-up/payments/claude-code/"
KEY = "sk-ant-api03-0123456789-abcdefgh"


@pytest.fixture
def home(settings, tmp_path, team):
    settings.HANDRAIL_HOME = tmp_path
    return tmp_path


def put_in(home, named: str):
    """Install a program as `manage.py agents install` leaves it."""
    program, version = agent_programs.parse(named)
    folder = home / "agents" / program.name / version / "bin"
    folder.mkdir(parents=True)
    (folder / program.link).write_text("")


@pytest.fixture
def claude():
    return extensions.agent_programs["claude-code"]


@pytest.fixture
def guide(browser_of, lena):
    client = browser_of(lena)
    return lambda: tight(client.get(HERE).content.decode())


@pytest.fixture
def installed(home, claude):
    put_in(home, claude.named)
    return claude.named


def settle(operation, **outcome):
    """End the installation as the runner does."""
    agent_installs.finish(operation, outcome, by=LEAD)
    Operation.objects.filter(pk=operation.pk).update(phase=Phase.SETTLED, outcome=outcome)


def done(team, claude) -> list[str]:
    return [name for name, is_done in set_up.SetUp(team, claude).steps.items() if is_done]


def test_without_an_agent_the_form_leads_to_the_guide(browser_of, lena, home):
    client = browser_of(lena)
    assert 'href="/agent-runs/set-up/"' in client.get("/agent-runs/new/").content.decode()
    chooser = tight(client.get("/agent-runs/set-up/").content.decode())
    assert f'href="{HERE}"' in chooser
    assert "Next: its program" in chooser


def test_a_lead_has_the_program_installed_and_the_page_says_how_it_goes(browser_of, lena, home, guide, claude, team):
    page = guide()
    assert f"Install Claude Code {claude.version}" in page
    assert "@anthropic-ai/claude-code" in page
    client = browser_of(lena)
    client.post(f"{HERE}install/")
    client.post(f"{HERE}install/")  # a second tap asks for nothing more
    [operation] = Operation.objects.filter(kind="install_agent")
    assert operation.args == {"program": claude.named}
    Operation.objects.update(phase=Phase.STARTED, progress={"step": "npm", "bytes": 12 << 20})
    page = guide()
    assert "12.0\xa0MB written" in page
    assert 'hx-trigger="every 2s"' in page
    put_in(home, claude.named)
    settle(operation, ok=True)
    page = guide()
    assert f"{claude.named}</code>is installed on the host" in page
    assert 'hx-trigger="every' not in page
    assert done(team, claude) == ["program"]
    verbs = list(Event.objects.filter(verb__startswith="agent_program.").values_list("verb", flat=True))
    assert sorted(verbs) == ["agent_program.asked", "agent_program.installed"]


def test_a_failed_installation_says_why_and_can_be_repeated(browser_of, lena, home, guide):
    browser_of(lena).post(f"{HERE}install/")
    settle(Operation.objects.get(), ok=False, reason="npm could not bring it: no such host.")
    page = guide()
    assert "npm could not bring it: no such host." in page
    assert "Install Claude Code" in page


def test_without_npm_the_step_says_who_can_go_on(home, guide, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    page = guide()
    assert "npm is not on the host." in page
    assert "Install Claude Code" not in page


def test_one_program_at_a_time_is_installed_for_a_team(browser_of, lena, home):
    client = browser_of(lena)
    client.post(f"{HERE}install/")
    said = client.post("/agent-runs/set-up/payments/codex/install/", follow=True).content.decode()
    assert "Another agent&#x27;s program is being installed." in said
    assert Operation.objects.count() == 1


def test_what_the_command_line_did_counts(home, team, claude, guide):
    assert done(team, claude) == []
    put_in(home, "claude-code@2.1.1")  # another version than the one that Handrail is tested with
    secrets.save(team, "ANTHROPIC_API_KEY", "models", KEY, by=LEAD)
    access = {"anthropic": {"secret": "ANTHROPIC_API_KEY", "models": ["claude-x"]}}
    fields = {"agent_programs": ["claude-code@2.1.1"], "model_access": access}
    environments.save(team, "mine", fields, base=None, by=LEAD)
    assert done(team, claude) == ["program", "key", "environment"]
    page = guide()
    assert f"Handrail is tested with {claude.named}." in page
    assert "/agent-runs/new/?environment=payments/mine&amp;program=claude-code" in page
    Secret.objects.all().delete()
    assert done(team, claude) == ["program", "environment"]


def test_a_key_is_pasted_once_and_never_shown(browser_of, lena, home, guide, team, claude):
    assert "Paste a key of Anthropic." in guide()
    client = browser_of(lena)
    page = client.post(f"{HERE}key/", {"value": f"  {KEY}\n"}, follow=True).content.decode()
    assert KEY not in page
    assert secrets.for_models(team.pk, "ANTHROPIC_API_KEY") == KEY
    assert "kept as the secret<code>ANTHROPIC_API_KEY</code>" in guide()
    client.post(f"{HERE}key/", {"value": KEY + "x"})
    assert secrets.for_models(team.pk, "ANTHROPIC_API_KEY") == KEY + "x"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "This field is required."),
        ("sk-ant-api03 0123456789-abcdefgh", "A key has no spaces"),
        ("sk-ant-123", "A key has 20 to 400 characters; this has 10."),
        ("sk-proj-0123456789-abcdefgh", "A key of Anthropic begins with sk-ant-."),
        ("sk-ant-ключ-0123456789-abcdefgh", "A key has no spaces"),
    ],
)
def test_what_is_no_key_by_its_form_is_refused_at_the_field(browser_of, lena, home, value, said):
    page = browser_of(lena).post(f"{HERE}key/", {"value": value}).content.decode()
    assert said in page
    assert not value or value not in page
    assert not Secret.objects.exists()


def test_a_gateway_has_keys_of_its_own_form(home, claude, settings):
    settings.HANDRAIL_MODEL_UPSTREAMS = {"anthropic": "http://127.0.0.1:9"}
    assert set_up.check_key(claude, "gateway-0123456789-abcdefgh") == "gateway-0123456789-abcdefgh"


def test_a_new_environment_has_the_defaults_and_names_the_agent(browser_of, lena, installed, team, claude):
    client = browser_of(lena)
    client.post(f"{HERE}place/", {"name": "agents", "repository": "https://1.1.1.1/team/shop.git"})
    made = Environment.objects.get(name="agents")
    assert (made.agent_programs, made.driver) == ([claude.named], "sandbox")
    assert made.model_access == {"anthropic": {"secret": "ANTHROPIC_API_KEY", "models": list(claude.models)}}
    assert (made.repository, made.limits, made.egress) == ("https://1.1.1.1/team/shop.git", {}, {})
    assert "environment" in done(team, claude)


def test_a_wrong_name_or_source_stands_at_its_field_and_keeps_what_was_typed(browser_of, lena, installed):
    client = browser_of(lena)
    page = client.post(f"{HERE}place/", {"name": "agents", "repository": "file:///etc"}).content.decode()
    assert 'value="file:///etc"' in page
    assert 'id="id_repository_error"' in page
    page = client.post(f"{HERE}place/", {"name": "a/b", "repository": ""}).content.decode()
    assert "A name has 1 to 80 letters" in page
    assert not Environment.objects.filter(name__in=["agents", "a/b"]).exists()


def test_the_agent_is_added_to_an_environment_that_is_there(browser_of, lena, installed, team, claude, home):
    put_in(home, "codex@1.2.3")
    access = {"openai": {"secret": "OTHER", "models": ["gpt-x"]}}
    fields = {"agent_programs": ["codex@1.2.3"], "model_access": access, "setup": "make\n"}
    environments.save(team, "shop", fields, base=None, by=LEAD)
    browser_of(lena).post(f"{HERE}place/", {"environment": "shop", "name": "", "repository": ""})
    saved = Environment.objects.get(name="shop", version=2)
    assert saved.agent_programs == ["codex@1.2.3", claude.named]
    assert saved.model_access.keys() == {"openai", "anthropic"}
    assert (saved.model_access["openai"], saved.setup) == (access["openai"], "make\n")


def test_without_the_program_no_environment_is_saved(browser_of, lena, home):
    said = browser_of(lena).post(f"{HERE}place/", {"name": "agents", "repository": ""}, follow=True).content.decode()
    assert "Install Claude Code first." in said
    assert not Environment.objects.filter(name="agents").exists()


def test_somebody_else_sees_the_state_and_who_goes_on(browser_of, bob, home, lena, mallory):
    client = browser_of(bob)
    page = tight(client.get(HERE).content.decode())
    assert "Leads and admins take these steps. In this team:" in page
    assert "lena" in page
    assert 'action="/agent-runs/set-up/' not in page
    for step in ("install", "key", "key/try", "place", "try"):
        assert client.post(f"{HERE}{step}/", {"value": KEY}).status_code == 403, step
    assert browser_of(mallory).get(HERE).status_code == 404
    assert not Operation.objects.exists()
    assert not Secret.objects.exists()


def test_an_agent_that_handrail_cannot_start_is_not_found(browser_of, lena, home, team):
    assert browser_of(lena).get("/agent-runs/set-up/payments/gemini/").status_code == 404
    with pytest.raises(Problem):
        set_up.find(team, "gemini")

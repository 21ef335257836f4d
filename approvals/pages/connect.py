"""The Connect page: settings to copy, a token, a test action, and whether the agent has connected."""

import json
import shlex
from pathlib import Path

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import gate
from approvals.agents import dialects, part
from approvals.agents.dialect import ALL_DAY, MERGED, NONE, WHOLE, Dialect
from approvals.agents.faults import RUNS, WORDS
from approvals.agents.programs import SCRIPTED
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentSession
from dashboard.models import Agent, Team
from dashboard.people.access import Caller
from dashboard.people.forms import NewAgentForm
from dashboard.people.provisioning import agent_of, managed_teams, token_for
from dashboard.text import own_commands
from dashboard.web.pages import as_uuid, carry_out, must, show_at, shown_once, signed_in

TABS = [
    *((dialect.name, dialect.title) for dialect in dialects.ALL),
    ("mcp", "MCP"),
    ("acp", "ACP"),
    ("python", "Python"),
    ("aap", "AAP"),
    ("http", gettext_lazy("Anything over HTTP")),
]
EDITS = {
    WHOLE: gettext_lazy("It runs the call as the person edited it"),
    MERGED: gettext_lazy("It runs the edited call. If an argument was removed, it is told which call to make instead"),
    NONE: gettext_lazy("It is told which call to make instead, which then runs without another question"),
}
NAMES = {
    **{dialect.name: dialect.title for dialect in dialects.ALL},
    "mcp": "MCP",
    "acp": "ACP",
    "python": "Python",
    "aap": "AAP",
}  # the name of an agent if nobody gives another one
GATED_SERVER = ["mcp-gate", "--name", "github", "--", "npx", "-y", "github-server"]
ACP_PROGRAM = "handrail-acp.pyz"
TEST_TOOL = "HandrailTest"
SHOWN = 5  # agents that were heard
SNIPPETS = Path(__file__).parent.parent / "connect" / "snippets"
PYTHON = SNIPPETS / "handrail.py"
PYTHON_USE = """import subprocess

from handrail import allowed

with allowed("Bash", {"command": "git push origin main"}, "The release is ready.") as arguments:
    subprocess.run(arguments["command"], shell=True, check=True)
"""


@signed_in
@require_safe
def connect(request):
    return _page(request, request.GET.get("tab", TABS[0][0]))


def _page(request, tab: str, form: NewAgentForm | None = None):
    caller = request.caller
    if tab not in dict(TABS):
        raise Http404("no such tab")
    found = Agent.objects.visible_to(caller).select_related("owner", "team")
    connected = list(found.order_by(F("last_seen_at").desc(nulls_last=True), "name")[:50])
    new_token = shown_once(request, "new_token")
    response = render(
        request,
        "approvals/connect.html",
        {
            "nav": "connect",
            "tab": tab,
            "tabs": [
                *((f"?tab={name}", words, name == tab) for name, words in TABS),
                (reverse("connect-phone"), gettext("My phone"), False),
            ],
            "address": settings.HANDRAIL_PUBLIC_URL,
            "teams": (managed := managed_teams(caller)),
            "form": form or _form(managed, initial={"name": NAMES.get(tab, "")}),
            "agents": connected,
            "heard": _connected_agents(found, dialects.find(tab)),
            "new_token": new_token,
            **_agent_facts(dialects.DIALECTS.get(tab)),
            **_texts_to_copy(tab, new_token["plain"] if new_token else "hr_…"),
            **_http_lines(),
            "over_plain_http": settings.HANDRAIL_PUBLIC_URL.startswith("http://")
            and "127.0.0.1" not in settings.HANDRAIL_PUBLIC_URL,
        },
    )
    if new_token:
        response["Cache-Control"] = "no-store"
    return response


def _texts_to_copy(tab: str, token: str) -> dict:
    """Return the commands, settings and programs that a person copies."""
    return {
        "settings_json": _settings_to_copy(tab),
        "connect_line": own_commands.manage(f"connect {tab} /path/to/your/folder"),
        "prove_line": own_commands.manage(f"prove {tab} /path/to/your/folder"),
        "system_line": own_commands.manage(f"connect {tab} --system"),
        **_client_lines(),
        "acp_fetch": f"curl -fsSo {ACP_PROGRAM} {settings.HANDRAIL_PUBLIC_URL}{reverse('acp-program')}",
        "acp_settings": json.dumps(acp_settings(token), indent=2, ensure_ascii=False),
        "python_module": PYTHON.read_text(),
        "python_use": PYTHON_USE,
        "python_shell": f"export HANDRAIL_URL={settings.HANDRAIL_PUBLIC_URL}",
        "aap_install": _in_own_environment("aap-client", "agentapprovalprotocol"),
        "aap_use": (SNIPPETS / "aap.py").read_text().replace("https://desk.example", settings.HANDRAIL_PUBLIC_URL),
    }


def _client_lines() -> dict:
    """Return how the command line `handrail` is installed and used; on this machine it is there already."""
    client = own_commands.program("handrail")
    gate = {"mcpServers": {"github": {"command": client, "args": GATED_SERVER}}}
    return {
        "client_install": _in_own_environment("handrail-client", "./client"),
        "mcp_gate": json.dumps(gate, indent=2),
        "mcp_server": f"claude mcp add handrail -- {shlex.quote(client)} mcp-server",
    }


def _in_own_environment(folder: str, package: str) -> str:
    """Return the line that installs a package; Debian's own Python lets pip install nothing (PEP 668)."""
    return f"python3 -m venv ~/.{folder} && ~/.{folder}/bin/pip install {package}"


def _connected_agents(found: QuerySet[Agent], dialect: Dialect | None) -> list[Agent]:
    """Return the agents of this kind that were heard, the latest first; without a kind, those of none.

    What shows an agent's kind: the name that `connect` gives it, or the sessions that its hooks told of.
    """
    of_kind = Q(name__in=dialects.DIALECTS) | Q(Exists(AgentSession.objects.filter(agent=OuterRef("pk"))))
    if dialect:
        sessions = AgentSession.objects.filter(agent=OuterRef("pk"), dialect=dialect.name)
        of_kind = Q(name=dialect.name) | Q(Exists(sessions))
    found = found.filter(last_seen_at__isnull=False)
    return list((found.filter(of_kind) if dialect else found.exclude(of_kind)).order_by("-last_seen_at")[:SHOWN])


def _agent_facts(dialect: Dialect | None) -> dict:
    """Return the facts on an agent's gate: its wait, edits, denials, and the faults on which it runs the tool."""
    if dialect is None:
        return {}
    waits = (
        gettext("All day, until somebody answers")
        if dialect.patience_s >= ALL_DAY
        else gettext("%(seconds)s seconds; then it is told “not yet”, and asks again") % {"seconds": dialect.patience_s}
    )
    opens = [WORDS[fault] for fault, does in dialect.faults.items() if does == RUNS]
    return {
        "dialect": dialect,
        "can_be_proven": dialect.name in SCRIPTED,
        "oldest": ".".join(map(str, dialect.oldest)),
        "facts": [
            (gettext("Waits"), waits),
            (gettext("Edits"), EDITS[dialect.edits]),
            (gettext("Denials"), gettext("The model reads the reason")),
            (gettext("Runs the tool anyway if"), "; ".join(map(str, opens)) or gettext("none of the faults tested")),
        ],
    }


def _form(teams: list[Team], data=None, **more) -> NewAgentForm:
    form = NewAgentForm(data, teams=teams, auto_id="c-%s", **more)
    form.fields["name"].label = gettext("Name of the agent")
    return form


def _http_lines() -> dict:
    """Return curl commands for the API calls of an agent: submit, wait, consume and report."""
    api = f"{settings.HANDRAIL_PUBLIC_URL}/api/v1/actions"
    token = '-H "Authorization: Bearer $HANDRAIL_TOKEN"'
    body = json.dumps({"tool": "Bash", "arguments": {"command": "git push"}, "mode": "gate"})
    return {
        "http_ask": f"curl {token} -H 'Content-Type: application/json' \\\n  -d '{body}' \\\n  {api}",
        "http_wait": f"curl {token} '{api}/ID?wait=25'",
        "http_consume": f"curl {token} -H 'Content-Type: application/json' \\\n"
        f'  -d \'{{"digest": "DIGEST"}}\' \\\n  {api}/ID/consume',
        "http_outcome": f"curl {token} -H 'Content-Type: application/json' \\\n"
        f'  -d \'{{"status": "succeeded"}}\' \\\n  {api}/ID/outcome',
    }


def acp_settings(token: str) -> dict:
    """Return an agent for an editor's settings, in the shape that Zed reads."""
    line = ["-IS", f"/path/to/{ACP_PROGRAM}", "env", "gate", "--", "opencode", "acp"]
    variables = {"HANDRAIL_URL": settings.HANDRAIL_PUBLIC_URL, "HANDRAIL_TOKEN": token}
    told = {"type": "custom", "command": "python3", "args": line, "env": variables}
    return {"agent_servers": {"OpenCode with Handrail": told}}


def _settings_to_copy(agent: str) -> str:
    """Return the settings that a person can copy into a file of the agent, "" if there are none."""
    offered = getattr(part(agent, "settings"), "settings_to_copy", None)
    return json.dumps(offered(), indent=2) if offered else ""


@signed_in
@require_POST
def make(request):
    """Make a token for an agent with the given name; it is shown once, on the next page."""
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_agents", team)
    form, page = _form(managed_teams(request.caller), request.POST), _address(request)
    if not form.is_valid():
        show_at(request, page)
        return _page(request, _tab(request), form)
    expires_at, agent = form.cleaned_data["days"], agent_of(team, form.cleaned_data["name"])
    if agent.owner is None:
        Agent.objects.filter(pk=agent.pk, owner=None).update(owner=request.user)
    plain = token_for(team, by=request.caller.actor, agent=agent, expires_at=expires_at)
    request.session["new_token"] = {"agent": agent.name, "plain": plain}
    return redirect(page)


def _address(request) -> str:
    return reverse("connect") + (f"?tab={_tab(request)}" if "tab" in request.POST else "")


def _tab(request) -> str:
    tab = request.POST.get("tab", "")
    return tab if tab in dict(TABS) else TABS[0][0]


@signed_in
@require_POST
def test(request):
    """Submit a test action in the agent's name. It runs nothing, whatever the decision."""
    agents = Agent.objects.visible_to(request.caller).select_related("team")
    agent = get_object_or_404(agents, pk=as_uuid(request.POST.get("agent", "")))
    must(request.caller, "manage_agents", agent.team)
    as_agent = Caller(roles={agent.team_id: "agent"}, agent=agent)
    call = Call(
        tool=TEST_TOOL,
        arguments={"message": "A test from the Connect page. Approve or deny it: nothing runs."},
        reasoning=f"{request.user.get_username()} pressed “Send a test action”.",
        expires_in_s=600,
    )

    def submit() -> Action:
        return gate.submit(call, caller=as_agent)[0]

    return carry_out(
        request,
        submit,
        then=lambda action: reverse("action", args=[action.pk]),
        otherwise=reverse("connect"),
        say="This is what an approval request looks like. Nothing runs, whatever you answer.",
    )

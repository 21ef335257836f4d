"""The page of a started agent, left open: when its turn ends, the result and its answers come by themselves."""

import json
import uuid

from playwright.sync_api import expect

from .conftest import TEAM, settle

STARTED = """
import json
from dashboard.database import clock
from approvals.agent_runs import turns
from approvals.models import AgentRun
from workspaces.models import Runner, Workspace
from workspaces.services import run_tokens
place = Workspace.objects.get(team__slug={team!r}, key={key!r})
# Of another host, so that the runner here does not look after a run that has no command.
place.runner = Runner.objects.get_or_create(host="elsewhere")[0]
place.save(update_fields=["runner"])
row = {{"team": place.team, "workspace": place, "agent": run_tokens.agent_of(place), "task": "Make it green."}}
row |= {{"program": "codex@1.2.3", "model": "gpt-5", "state": "working", "token_sha256": {token!r}}}
run = AgentRun.objects.create(**row, created_at=clock.now(), changed_at=clock.now())
turns.add(run, "task", run.task)
print(json.dumps(str(run.pk)))
"""
ENDED = """
from approvals.agent_runs.following import _close
from approvals.models import AgentRun
run = AgentRun.objects.get(pk={pk!r})
run.summary = "It is green."
_close(run, run.turns.get(), "answered")
"""


def test_the_answers_to_a_run_appear_when_its_turn_ends_and_typed_text_stays(product, person, workspace):
    started = product.shell(STARTED.format(team=TEAM, key=workspace, token=uuid.uuid4().hex))
    pk = json.loads(started)
    page = person("lena", "lead")
    page.goto(f"{product.desk}/agent-runs/{pk}/")
    settle(page)
    accept, stop = (page.get_by_role("button", name=name) for name in ("Accept the work", "Stop the agent"))
    expect(stop).to_be_visible()
    expect(accept).to_have_count(0)
    page.get_by_role("textbox", name="Message").fill("The tests are missing.")

    product.shell(ENDED.format(pk=pk))
    expect(accept).to_be_visible()
    expect(stop).to_have_count(0)
    expect(page.get_by_text("It is green.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("The tests are missing.")
    settle(page)
    accept.click()
    expect(page.get_by_text("Accepted").first).to_be_visible()
    expect(accept).to_have_count(0)

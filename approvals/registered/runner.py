"""Register approvals' kinds of operations, sweeps and system files with the runner."""

from approvals import tasks
from approvals.actions import expiry, way_back_search
from approvals.actions.asked_snapshots import asking
from approvals.agent_runs import following as agents
from approvals.agent_runs import trials
from approvals.agent_runs.attempts import checking, reviewing
from approvals.agents import parts
from approvals.broker import quarantine_cards
from approvals.broker.asked_snapshot import AskedSnapshot
from approvals.broker.broker import Broker
from approvals.broker.put_hook_back import PutHookBack
from approvals.broker.way_back import WayBack
from approvals.broker.workspace_action import WorkspaceAction
from approvals.connect import hook_watch
from approvals.notify import agent_runs as notices_of_agents
from approvals.sessions import following
from workspaces import extensions
from workspaces.runner.sweeps import Sweep


def register():
    extensions.kinds |= {
        "broker": Broker(),
        "workspace_action": WorkspaceAction(),
        "put_hook_back": PutHookBack(),
        asking.KIND: AskedSnapshot(),
        way_back_search.KIND: WayBack(),
    }
    extensions.sweeps += [
        Sweep(tasks.sweep, expiry.due),
        Sweep(way_back_search.sweep, way_back_search.due),
        Sweep(
            tasks.follow_agents,
            lambda: (
                agents.open_here(),
                trials.open_here(),
                checking.due(),
                reviewing.to_review(),
                reviewing.reviewed(),
                notices_of_agents.untold(),
            ),
        ),
        *map(Sweep, (hook_watch.sweep, quarantine_cards.sweep, following.sweep)),
    ]
    extensions.system_files += [each.system_files for each in parts("settings").values()]

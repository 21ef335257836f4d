"""Register approvals' kinds of operations, sweeps and system files with the runner."""

from approvals import broker, expiry, quarantine_cards, tasks, workspace_actions
from approvals.agent_runs import following as agents
from approvals.asked_snapshots import asking, taking
from approvals.connect import claude_settings, codex_settings, hook_watch, opencode_settings
from approvals.conversations import following
from approvals.notify import agent_runs as notices_of_agents
from workspaces import extensions
from workspaces.runner.sweeps import Sweep


def register():
    extensions.kinds |= {
        "broker": broker.broker,
        "workspace_action": workspace_actions.KIND,
        "put_hook_back": hook_watch.carrier,
        asking.KIND: taking.carrier,
    }
    extensions.sweeps += [
        Sweep(tasks.sweep, expiry.due),
        Sweep(tasks.follow_agents, lambda: (agents.open_here(), notices_of_agents.untold())),
        *map(Sweep, (hook_watch.sweep, quarantine_cards.sweep, following.sweep)),
    ]
    of_agents = (claude_settings, codex_settings, opencode_settings)
    extensions.system_files += [each.system_files for each in of_agents]

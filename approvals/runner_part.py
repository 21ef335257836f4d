"""Register approvals' kinds of operations, sweeps and system files with the runner."""

from approvals import broker, quarantine_cards, tasks, workspace_actions
from approvals.agent_runs import turns
from approvals.asked_snapshots import asking, taking
from approvals.connect import claude_settings, codex_settings, hook_watch, opencode_settings
from approvals.conversations import following
from workspaces import extensions


def register():
    extensions.kinds |= {
        "broker": broker.broker,
        "workspace_action": workspace_actions.KIND,
        "put_hook_back": hook_watch.carrier,
        asking.KIND: taking.carrier,
    }
    extensions.sweeps += [tasks.sweep, hook_watch.sweep, quarantine_cards.sweep, following.sweep, tasks.follow_agents]
    extensions.program_variables.append(turns.program_variables)
    extensions.home_readers.append(following.read_home)
    of_agents = (claude_settings, codex_settings, opencode_settings)
    extensions.system_files += [each.system_files for each in of_agents]

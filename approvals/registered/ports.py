"""What workspaces asks this app: `workspaces.extensions.Ports`."""

# ruff: noqa: F401 (each name is a port)

from approvals.actions.ask_first import ask as ask_a_person
from approvals.actions.ask_first import runs_without_approval
from approvals.actions.held_requests import answer as answer_about_request
from approvals.actions.held_requests import ask as ask_about_request
from approvals.actions.held_requests import stop_asking as stop_asking_about_request
from approvals.actions.held_requests import use as use_approved_request
from approvals.actions.transitions import agents_running as agents_at_work
from approvals.actions.transitions import name_of as name_of_action
from approvals.agent_runs import scheduled as agent_jobs
from approvals.agent_runs.attempts.making import agreed_commit, tasks_of
from approvals.agent_runs.attempts.reviewing import is_review
from approvals.agent_runs.model_relay.accounts import used_by_agents
from approvals.agent_runs.requests import work_began_at
from approvals.agent_runs.turns import program_variables
from approvals.line_comments.drafts import unsent_of
from approvals.line_comments.placing import on_section as place_comments
from approvals.line_comments.sending import drafts_on
from approvals.notify.direct import queue_message as tell_person
from approvals.registered.retention import snapshots_compared
from approvals.reports.open_questions import of_workspace as open_questions
from approvals.reports.pull_request_text import approved as pull_request_sections
from approvals.sessions.reading import messages_in, task_in


def read_home(workspace, tree) -> None:
    from approvals.sessions import following  # here: only the runner reads homes

    following.read_home(workspace, tree)

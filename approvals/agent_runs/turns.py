"""Turns of a run: what the program is told, its command, and the messages of people that no hook has delivered."""

from django.db.models import Max, UUIDField

from approvals.agent_runs.definitions import content
from approvals.agent_runs.model_relay import accounts
from approvals.agents.program import Launcher, Start
from approvals.agents.programs import LAUNCHERS
from approvals.models import AgentMessage, AgentRun, AgentTurn, TaskAttempt, TurnKind
from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Actor, Event
from workspaces import secrets
from workspaces.models import Command
from workspaces.provisioning import agent_programs
from workspaces.services import commands

SECONDS = 7 * 24 * 3600  # the longest that a turn may run
GO_ON = "Your program ended before you had finished. Look at what is already done, then go on with the task."
MORE_BUDGET = "A person gave you more budget. Go on with the task where you stopped."
HOW = (
    "You work alone in this workspace, started by Handrail. Some of your tool calls wait until a person approves them; "
    "a denial says why. If the folder is a git repository, commit your work. When you are done, end with a short "
    "summary: what you changed, how you checked it, what is left to do."
)

LESSON = (
    "If you learn something that later work on this repository should know, write it into .handrail/notes.md below the "
    "heading `## Lesson`. It is proposed to the team when your work is merged."
)


def launcher_of(run: AgentRun) -> Launcher:
    return LAUNCHERS[run.program_name]


def uses_relay(run: AgentRun) -> bool:
    return launcher_of(run).provider in run.workspace.environment.model_access


def add(run: AgentRun, kind: TurnKind, prompt: str, *, by=None) -> AgentTurn:
    """Add the next turn, which starts as soon as its workspace is up."""
    last = run.turns.aggregate(last=Max("number"))["last"] or 0
    return AgentTurn.objects.create(run=run, number=last + 1, kind=kind, prompt=prompt, by=by, created_at=clock.now())


def submit(run: AgentRun, turn: AgentTurn, *, by: Actor) -> Command:
    """Start the turn's program as a command of the workspace, once."""
    launcher = launcher_of(run)
    relay = uses_relay(run)
    program = agent_programs.path_inside(run.program)
    is_first = not is_known(run)
    start = Start(
        prompt=_prompt(run, turn, is_first),
        instructions=_instructions(run),
        session=run.native_id,
        is_first=is_first,
        model=run.model,
        relay=relay,
        driver=run.workspace.environment.driver,
    )
    argv = launcher.argv(program, start)
    if relay:
        token = accounts.token_of(run)
        secrets.search_for(run.workspace, launcher.key_variable, "agent", token)
    wish = {"argv": argv, "env": launcher.variables(start), "timeout_s": SECONDS}
    return commands.run_command(run.workspace, wish, by=by, idempotency_key=f"agent-turn-{turn.pk}")


def is_known(run: AgentRun) -> bool:
    """Return whether the program can resume its session: a hook has reported something of it."""
    return bool(run.native_id) and run.session is not None


def _prompt(run: AgentRun, turn: AgentTurn, is_first: bool) -> str:
    if not is_first:
        return turn.prompt
    ticket = f"\n\nThe ticket: {run.ticket_url}" if run.ticket_url else ""
    later = f"\n\n{turn.prompt}" if turn.kind != TurnKind.TASK else ""
    return f"{run.task}{ticket}{later}"


def _instructions(run: AgentRun) -> str:
    """Return what the agent is told beside its prompts: its definition, and how it works here."""
    own = content.prompt_of(run.definition.content) if run.definition else ""
    lesson = LESSON if TaskAttempt.objects.filter(run=run).exists() else ""
    return "\n\n".join(filter(None, (own, HOW, lesson)))


def program_variables(operation) -> dict[str, str]:
    """Return {variable: token of the relay} for the program of a turn's command, else {}."""
    turn = next(iter(_OF_OPERATION.rows(operation=operation.pk)), None)
    if turn is None or not uses_relay(turn.run):
        return {}
    return {launcher_of(turn.run).key_variable: accounts.token_of(turn.run)}


_OF_OPERATION = Prepared(
    lambda: AgentTurn.objects.filter(command__operation=Slot("operation", UUIDField())).select_related(
        "run__workspace__environment"
    )
)


def undelivered(run: AgentRun) -> list[AgentMessage]:
    """Return people's messages to this session that the agent has not got."""
    sessions = {"", run.native_id} if run.native_id else {""}
    found = AgentMessage.objects.filter(agent=run.agent_id, session__in=sessions, given_at=None, at__gte=run.created_at)
    return list(found.select_related("user").order_by("at"))


def deliver(run: AgentRun, messages: list[AgentMessage]) -> AgentTurn:
    """Add a turn with these messages, so that no hook's response delivers them again."""
    take(messages)
    several = len({message.user_id for message in messages}) > 1
    texts = [f"{message.user.get_username()}: {message.text}" if several else message.text for message in messages]
    prompt = "\n\n".join(texts)
    return add(run, TurnKind.MESSAGE, prompt, by=messages[-1].user)


def take(messages: list[AgentMessage]):
    """Mark the messages as delivered: the next turn has them, or a stop cancels them."""
    rows = AgentMessage.objects.filter(pk__in=[message.pk for message in messages])
    rows.update(given_at=clock.now(), given_by=AgentMessage.Way.TURN)


def record(run: AgentRun, by: Actor, verb: str, **data):
    told = {"run": str(run.pk), "task": str(run)} | {name: value for name, value in data.items() if value}
    Event.objects.record(run.team_id, actor=by, verb=verb, subject=run, workspace=run.workspace_id, data=told)

"""The events of agents' hooks, with the same fields for every agent. The agent waits only on `Before` and `Asked`."""

from dataclasses import dataclass, field

from dashboard.problems import invalid

MAX_ID = 200  # characters of a session's or a call's id


@dataclass(frozen=True, kw_only=True)
class HookEvent:
    """One event of one session. Messages to a sub-agent do not reach the agent that a person writes to."""

    session: str = ""
    cwd: str | None = None
    in_sub_agent: bool = False


@dataclass(frozen=True, kw_only=True)
class OfCall(HookEvent):
    """An event about a tool call. `tool` and `arguments` have Handrail's names, `native` has the agent's own."""

    tool: str
    arguments: dict
    call_id: str = ""
    transcript: str = ""  # the path of the session's transcript, as the agent says
    native: tuple = ()  # (tool, arguments) as the agent named them


class Before(OfCall):
    """A tool call that runs if the answer allows it."""


@dataclass(frozen=True, kw_only=True)
class After(OfCall):
    """The end of a tool call, with its result or its error."""

    event: str = ""  # the agent's name of it, where it has several
    response: object = None
    error: str | None = None
    failed: bool = False
    exit_status: int | None = None  # of a shell call
    is_unclear: bool = False  # a shell call ended, and the agent does not report how


class OwnPrompt(OfCall):
    """A call about which the agent asks its user at the terminal, after the gate has allowed it."""


@dataclass(frozen=True, kw_only=True)
class Asked(HookEvent):
    """A question that an MCP server puts to the person."""

    question: dict
    call_id: str = ""
    transcript: str = ""


@dataclass(frozen=True, kw_only=True)
class Prompted(HookEvent):
    """The prompt of a person; None if the event has no text."""

    text: str | None


@dataclass(frozen=True, kw_only=True)
class Turning(HookEvent):
    """A point in the life of a session; `noted` goes into the event log."""

    noted: dict = field(default_factory=dict)


class Began(Turning):
    """A session began or went on."""


@dataclass(frozen=True, kw_only=True)
class TurnEnded(Turning):
    """The agent is about to stop and wait for its person."""

    said: str | None = None  # its last message
    is_idle: bool = False  # the agent says that nothing of it runs on in the background
    was_kept_going: bool = False  # a hook has kept it from stopping already


class Ended(Turning):
    """The session is over."""


class Other(HookEvent):
    """An event that changes nothing here; newer versions of an agent may bring more of them."""


def shell_end(exit_status: object, *, runs_on: bool = False) -> dict:
    """Return the fields of `After` for the end of a shell call: without an exit status its end is unclear.

    `runs_on` is True for a call that only started a program in the background.
    """
    known = exit_status if isinstance(exit_status, int) and not isinstance(exit_status, bool) else None
    return {"exit_status": known, "failed": bool(known), "is_unclear": known is None and not runs_on}


def text(event: dict, name: str) -> str:
    """Return a short text of the event, "" if it has none. Problem 422."""
    value = event.get(name) or ""
    if not isinstance(value, str) or len(value) > MAX_ID:
        raise invalid(f"{name} must be a text of at most {MAX_ID} characters.")
    return value


def text_or_none(event: dict, name: str) -> str | None:
    """Return a text of any length; None if the value is not a text."""
    value = event.get(name)
    return value if isinstance(value, str) else None


def path(event: dict, name: str) -> str | None:
    """Return a path of the event, None if it has none. Problem 422."""
    value = event.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(f"{name} must be a path.")
    return value


def session(event: dict, name: str) -> str:
    """Return the session's id. Problem 422 if there is none."""
    if found := text(event, name):
        return found
    raise invalid(f"{name} is missing.")


def folder(event: dict) -> str | None:
    """Return the folder of an event that is only recorded; None if it is not a text."""
    return event["cwd"] if isinstance(event.get("cwd"), str) else None

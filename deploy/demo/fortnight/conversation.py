"""Conversations of the fortnight: what an agent's transcript of a session says, imported as the product imports one."""

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from approvals.agents.lines import Line
from approvals.models import Action, AgentSession, MessageKind, MessageSource, Role, Status
from approvals.sessions import rows, sessions
from dashboard.database import clock

PROGRAMS = {  # by the beginning of the agent's name: dialect, model, US dollars for a million tokens in and out
    "codex": ("codex", "gpt-5.1-codex", (1.25, 10)),
    "": ("claude-code", "claude-sonnet-4-5", (3, 15)),
}
DONE = {"Write": "File created successfully at: {}", "Edit": "The file {} has been updated."}


@dataclass
class Conversation:
    """The messages of one session, in the order of their times, until `keep` stores them."""

    session: AgentSession
    model: str
    prices: tuple
    random: Random
    lines: list[Line] = field(default_factory=list)

    def asked(self, prompt: str):
        self.lines.append(Line(Role.USER, MessageKind.TEXT, prompt, at=clock.now(), native_id=self._id()))

    def thought(self, text: str):
        self._from_model(MessageKind.THINKING, text)

    def said(self, text: str):
        self._from_model(MessageKind.TEXT, text)

    def called(self, step, call_id: str):
        """Add what the agent says before a call, and the call."""
        if step.says:
            self.said(step.says)
        self._from_model(MessageKind.CALL, step.arguments, tool=step.tool, call_id=call_id)

    def returned(self, step, action: Action, content: str | None):
        """Add the result of a call as the model reads it; `content` is the file that it read."""
        told = {
            "tool": step.tool,
            "call_id": action.call_id,
            "at": clock.now(),
            "ok": action.status == Status.SUCCEEDED,
        }
        if action.status not in (Status.SUCCEEDED, Status.FAILED):
            said = f" {step.answer[1]}" if step.answer[1] else ""
            text = f"Handrail: A-{action.number} was {action.get_status_display().lower()}.{said}"
        else:
            text = content or step.prints or DONE.get(step.tool, "").format(step.arguments.get("file_path"))
        self.lines.append(Line(Role.TOOL, MessageKind.RESULT, text, **told))

    def keep(self, *, ends: bool):
        """Store the messages with the tokens and the price of the session."""
        rows.add(self.session, self.lines, MessageSource.TRANSCRIPT)
        sessions.count_tokens(self.session, self.lines, None)
        used = [sum(getattr(line, name) for line in self.lines) for name in ("tokens_in", "tokens_out")]
        cost = sum(tokens * price for tokens, price in zip(used, self.prices, strict=True)) / 1e6
        sessions.note_of_transcript(self.session, self.lines, 0, "", cost)
        if ends:
            sessions.end(self.session, "prompt_input_exit")

    def _from_model(self, kind: str, content, **more):
        tokens = {"tokens_in": 900 + 240 * len(self.lines), "tokens_out": self.random.randint(40, 700)}
        tokens["tokens_cached"] = tokens["tokens_in"] * 9 // 10
        at = clock.now() - timedelta(milliseconds=2 if kind == MessageKind.THINKING else 1 if kind == "text" else 0)
        line = Line(
            Role.ASSISTANT, kind, content, at=at, native_id=self._id(), model=self.model, **(tokens | more)
        )  # fmt: skip
        self.lines.append(line)

    def _id(self) -> str:
        return f"msg-{self.session.native_id}-{len(self.lines)}"


def begin(agent, native_id: str, workspace) -> Conversation:
    """Begin the session as the first hook of it does. Its own numbers are random apart from the story's."""
    dialect, model, prices = next(of for name, of in PROGRAMS.items() if agent.name.startswith(name))
    noted = {"cwd": "/workspace", "model": model, "gated_by": "hook"}
    session = sessions.session_of(agent, dialect, native_id, workspace=workspace, **noted)
    return Conversation(session, model, prices, Random(native_id))

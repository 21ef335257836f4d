"""Store messages of a session. A message that both a hook and a transcript report is one row."""

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from functools import cached_property

from django.db import transaction

from approvals.agents.lines import MAX_ID, Line
from approvals.models import Action, AgentSession, Message, MessageBody, MessageKind, MessageSource, Role
from approvals.models.bodies import pack
from approvals.sessions.sessions import MAX_TITLE
from dashboard.database import clock
from dashboard.text.bounded_names import bounded
from workspaces.secrets.masking import Masker

INLINE = 64 * 1024  # bytes of a text that stand in its row
CALLS = (MessageKind.CALL, MessageKind.RESULT)
AHEAD = timedelta(minutes=5)  # by which an agent's clock may be ahead


def add(session: AgentSession, lines: Iterable[Line], source: str, *, by=None) -> int:
    """Store the lines that are not known yet, in their order; return how many are new. `by`: who wrote a prompt."""
    lines = list(lines)
    with transaction.atomic():
        session = _locked(session)
        batch = _Batch(session, lines, source, by)
        for line, text, sha256 in batch.told:
            batch.take(line, text, sha256)
        batch.save()
    return len(batch.new)


class _Batch:
    """Lines of one session on their way into rows, in a constant number of queries."""

    def __init__(self, session: AgentSession, lines: list[Line], source: str, by):
        self.session, self.source, self.by = session, source, by
        self.new, self.bodies, masker = [], [], Masker(session.workspace)
        texts = [masker.stored(line.content) for line in lines]
        self.told = [(line, text, _digest(text)) for line, text in zip(lines, texts, strict=True)]
        of_session = Message.objects.filter(session=session)
        keys = [line.key for line in lines if line.key]
        self.known = {row.native_id: row for row in of_session.filter(native_id__in=keys)}
        self.actions = self._actions(lines)
        # Those that only the other side told: a text that is equal to one of them is the same message.
        digests = {sha256 for line, _, sha256 in self.told if line.kind not in CALLS}
        others = of_session.filter(source__in=_others(source), sha256__in=digests).exclude(kind__in=CALLS)
        self.others = list(others.order_by("seq"))

    @cached_property
    def last(self) -> Message | None:
        return Message.objects.filter(session=self.session).exclude(kind__in=CALLS).order_by("seq").last()

    def _actions(self, lines: list[Line]) -> dict:
        ids = {line.call for line in lines if line.call}
        mine = Action.objects.filter(agent=self.session.agent_id, session=self.session.session_of_actions)
        return {action.call_id: action for action in mine.filter(call_id__in=ids).order_by("number")}

    def take(self, line: Line, text: str, sha256: str):
        if line.key and line.key in self.known:
            return self._fill(self.known[line.key], line, text, sha256)
        if line.kind not in CALLS and (same := self._same(line, sha256)):
            return self._fill(same, line, text, sha256)
        self._append(line, text, sha256)

    def _same(self, line: Line, sha256: str) -> Message | None:
        for row in self.others:
            if (row.role, row.kind, row.sha256) == (line.role, line.kind, sha256):
                self.others.remove(row)
                return row
        # A hook may be sent twice, and Claude Code's Stop comes again after it was kept from stopping.
        last = self.last
        is_again = last and (last.role, last.kind, last.sha256) == (line.role, line.kind, sha256)
        return last if is_again and self.source == last.source == MessageSource.HOOK else None

    def _fill(self, row: Message, line: Line, text: str, sha256: str):
        """Complete a row that is known: a transcript says more than a hook, and its words are the model's."""
        if self.source == row.source or row.source == MessageSource.BOTH:
            return
        if self.source == MessageSource.TRANSCRIPT:
            row.at, row.parent = self._moment(line), bounded(line.parent, MAX_ID)
            row.model, row.tokens_in, row.tokens_out = line.model[:100], line.tokens_in, line.tokens_out
            row.native_id = row.native_id or line.key
            if text:
                MessageBody.objects.filter(message=row).delete()
                self._set_text(row, text, sha256)
        row.ok = line.ok if row.ok is None else row.ok
        row.tool, row.source = row.tool or line.tool[:200], MessageSource.BOTH
        row.action = row.action or self.actions.get(line.call)
        row.save()
        if row.native_id:
            self.known[row.native_id] = row

    def _append(self, line: Line, text: str, sha256: str):
        self.session.seq += 1
        action = self.actions.get(line.call) if line.kind in CALLS else None
        row = Message(
            session=self.session,
            seq=self.session.seq,
            branch=self.session.branch,
            native_id=line.key,
            parent=bounded(line.parent, MAX_ID),
            at=self._moment(line, action if line.kind == MessageKind.CALL else None),
            role=line.role,
            kind=line.kind,
            tool=line.tool[:200] or (action.tool if action else ""),
            call_id=line.call,
            action=action,
            ok=line.ok,
            model=line.model[:100],
            tokens_in=line.tokens_in,
            tokens_out=line.tokens_out,
            source=self.source,
            by=self.by if line.role == Role.USER else None,
        )
        self._set_text(row, text, sha256)
        row.save(force_insert=True)
        self.new.append(row)
        if row.native_id:
            self.known[row.native_id] = row
        if line.kind not in CALLS:
            self.last = row

    def _set_text(self, row: Message, text: str, sha256: str):
        whole = text.encode()
        row.bytes, row.sha256, row.text = len(whole), sha256, text
        if len(whole) > INLINE:
            row.text = whole[:INLINE].decode("utf-8", "ignore")
            self.bodies.append((row, pack(whole)))

    def _moment(self, line: Line, action: Action | None = None):
        now = clock.now()
        if line.at is not None:
            return min(line.at, now + AHEAD)
        return action.created_at if action and self.source == MessageSource.HOOK else now

    def save(self):
        session = self.session
        MessageBody.objects.bulk_create([MessageBody(message=row, body=body) for row, body in self.bodies])
        asked = next((row for row in self.new if row.role == Role.USER and row.kind == MessageKind.TEXT), None)
        if asked and not session.title:
            session.title = " ".join(asked.text[: 4 * MAX_TITLE].split())[:MAX_TITLE]
        if self.new:
            session.last_at = max(session.last_at, *(row.at for row in self.new))
        session.save(update_fields=["seq", "title", "last_at"])


def _locked(session: AgentSession) -> AgentSession:
    # Only its own row: PostgreSQL cannot lock the nullable side of an outer join.
    rows = AgentSession.objects.locked().select_related("workspace", "parent")
    return rows.get(pk=session.pk)


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()


def _others(source: str) -> list[str]:
    """Return the sources whose rows may be of the same messages. What an agent posts by itself says whether it is."""
    if source == MessageSource.API:
        return []
    return [MessageSource.TRANSCRIPT if source == MessageSource.HOOK else MessageSource.HOOK]

"""Compare a scheduled run with the one before it that had an outcome."""

from dataclasses import dataclass

from workspaces.models import ScheduledRun, ScheduledState
from workspaces.programs import recordings

READ_BYTES = 1 << 20  # of each output, from its beginning, in which the first difference is looked for
LINE_CHARACTERS = 300  # of a line that differs
ENDED = (ScheduledState.PASSED, ScheduledState.FAILED, ScheduledState.STOPPED)


@dataclass(frozen=True)
class Comparison:
    """What differs between a run and the one before. A line is None where that output has ended."""

    before: ScheduledRun
    same_exit_status: bool
    seconds_more: float | None  # negative: it was faster
    same_output: bool | None  # None: an output is not known
    line: int | None = None  # the number of the first line that differs, if it was found
    was: str | None = None
    now: str | None = None


def compare(run: ScheduledRun) -> Comparison | None:
    """Return how the run differs from the one before it; None if it has no outcome, or there was none before."""
    if run.state not in ENDED or run.command is None:
        return None
    earlier = run.schedule.runs.filter(state__in=ENDED, due_at__lt=run.due_at).select_related("command")
    before = earlier.order_by("-due_at").first()
    if before is None:
        return None
    known = run.output_sha256 and before.output_sha256
    same = run.output_sha256 == before.output_sha256 if known else None
    spans = (run.seconds, before.seconds)
    return Comparison(
        before=before,
        same_exit_status=run.exit_status == before.exit_status,
        seconds_more=None if None in spans else spans[0] - spans[1],
        same_output=same,
        **(_first_difference(before, run) if same is False else {}),
    )


def _first_difference(before: ScheduledRun, run: ScheduledRun) -> dict:
    """Return the first line that differs, if both outputs are still kept and it is near their beginning."""
    texts = [_beginning(each) for each in (before, run)]
    if None in texts:
        return {}
    old, new = (text.splitlines() for text in texts)
    for number in range(max(len(old), len(new))):
        was, now = (lines[number][:LINE_CHARACTERS] if number < len(lines) else None for lines in (old, new))
        if was != now:
            return {"line": number + 1, "was": was, "now": now}
    return {}


def _beginning(run: ScheduledRun) -> str | None:
    if run.command is None or run.command.swept_at:
        return None
    data = b""
    for piece in recordings.of(run.command).pieces():
        data += piece
        if len(data) >= READ_BYTES:
            break
    return data[:READ_BYTES].decode("utf-8", "replace")

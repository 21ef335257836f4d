"""The report as lines for a terminal. Whatever an agent wrote is escaped: it could move the cursor or hide text."""

MAX_WIDTH = 100  # characters of a call
MAX_CALLS = 3  # shown of one heading; all with `whole`
MAX_HEADINGS = 12


def printable(text: str) -> str:
    """Escape the characters that a terminal would not print."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def lines(report: dict, *, whole: bool = False) -> list[str]:
    """Return the report in sentences and lists; with `whole` each call that is known."""
    found = [_summary(report)]
    if report["asked"]:
        found += [_asked(report), "", *_groups(report, whole)]
    if report["suggestions"]:
        found += ["", *_suggestions(report)]
    passed = [f"  not stopped: {printable(each['text'])}" for each in report["attacks_running"]]
    return [*found, "", _attacks(report), *passed, *_notes(report)]


def _summary(report: dict) -> str:
    if not report["calls"]:
        return f"No agent left a transcript of the last {report['days']} days here."
    return (
        f"In your last {report['days']} days {_many(report['calls'], 'call')} ({agents_of(report)}), in "
        f"{_many(report['active_hours'], 'active hour')}."
    )


def _asked(report: dict) -> str:
    return (
        f"This policy would have asked you {_many(report['asked'], 'time')}: {report['asked_per_100_calls']} in 100 "
        f"calls, {report['asked_per_active_hour']} in an active hour."
    )


def agents_of(report: dict) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in report["agents"].items())


def labels_of(report: dict) -> str:
    """Return what is suggested to be trusted, as a list in a sentence; "" if nothing is."""
    *before, last = [each["label"] for each in report["suggestions"]] or [""]
    return f"{', '.join(before)} and {last}" if before else last


def _groups(report: dict, whole: bool):
    groups = report["groups"] if whole else report["groups"][:MAX_HEADINGS]
    for group in groups:
        yield f"  {group['times']:>6,}  {printable(group['heading'])}"
        for call in group["calls"] if whole else group["calls"][:MAX_CALLS]:
            text = printable(call["text"] or call["tool"])
            cut = text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…"
            yield f"          {call['times']:>4,} × {cut}"
            if whole:
                yield from (f"                 {printable(reason)}" for reason in call["reasons"])
    if left := len(report["groups"]) - len(groups):
        yield f"          … and {left} more kinds; --whole shows all."


def _suggestions(report: dict):
    yield f"Trusting {printable(labels_of(report))} leaves {report['asked_with_trust']:,}:"
    for each in report["suggestions"]:
        yield f"  {printable(each['label'])} would let {_many(each['saves'], 'call')} run: {printable(each['says'])}."
        does = list(dict.fromkeys(attack["does"] for attack in each["allows"]))
        if does:
            yield f"    An attacker could use it: {'; '.join(does)}."
    yield "Trust them on the Policy page, under On your last 30 days."


def _attacks(report: dict) -> str:
    """Return how many of the shipped hostile calls this policy stops."""
    stopped = report["attacks_stopped_with_trust"] if report["suggestions"] else report["attacks_stopped"]
    lead = "Self-test with that trust" if report["suggestions"] else "Self-test"
    return f"{lead}: {stopped} of {report['attacks']} known bypass attempts are stopped."


def _notes(report: dict):
    if report["broken_lines"]:
        yield f"{_many(report['broken_lines'], 'line')} of the transcripts could not be read and were left out."
    if report["skipped_files"]:
        yield f"{_many(report['skipped_files'], 'file')} were left out: symlinks, or not yours."
    if report["cut"]:
        yield "There is more than is read at once: the newest transcripts count."


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"

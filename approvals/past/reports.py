"""The reports that web shows: made in one helper process, one at a time, and kept while nothing has changed."""

import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from dashboard.workers.pool import Late, Worker, Workers

MAX_KEPT = 8
REPORT_TIMEOUT, STAMP_TIMEOUT, QUEUE_TIMEOUT = 300.0, 60.0, 900.0
FRESH = 60.0  # seconds until the transcripts' times are looked at again


@dataclass
class Kept:
    """A report, or why there is none, and the times of the transcripts that it was made from."""

    stamp: list = field(default_factory=list)
    report: dict | None = None
    problem: str = ""
    checked: float = 0.0


class Reports:
    """Reports by what was asked: the policy, the folders and the days."""

    def __init__(self):
        self.workers = Workers(lambda: Worker("approvals.past"), 1, QUEUE_TIMEOUT)
        self.lock, self.kept, self.busy = threading.Lock(), OrderedDict(), set()

    def of(self, question: dict) -> dict | None:
        """Return the report, None while it is made. Raise Late if it could not be made."""
        key = json.dumps(question, sort_keys=True)
        with self.lock:
            known = self.kept.get(key)
            if known and time.monotonic() - known.checked < FRESH:
                if known.problem:
                    raise Late(known.problem)
                return known.report
            if key not in self.busy:
                self.busy.add(key)
                threading.Thread(target=self._make, args=(key, question, known), daemon=True).start()
        return None

    def _make(self, key: str, question: dict, known: Kept | None):
        try:
            made = self._made(question, known)
        except Late as late:
            made = Kept(problem=str(late))
        with self.lock:
            made.checked = time.monotonic()
            self.kept[key] = made
            self.kept.move_to_end(key)
            while len(self.kept) > MAX_KEPT:
                self.kept.popitem(last=False)
            self.busy.discard(key)

    def _made(self, question: dict, known: Kept | None) -> Kept:
        of = {name: question[name] for name in ("homes", "folders", "days")}
        stamp = self.workers.ask({"what": "stamp", "of": of}, STAMP_TIMEOUT)["stamp"]
        if known and known.report and known.stamp == stamp:
            return known
        report = self.workers.ask({"what": "report", "of": question}, REPORT_TIMEOUT)["report"]
        return Kept(stamp, report)


reports = Reports()

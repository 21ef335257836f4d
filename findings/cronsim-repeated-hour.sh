#!/usr/bin/env bash
# cronsim 2.8 (PyPI): times around a change of clocks that are wrong.
#
# Behaviour: started in the second of two equal hours, `30 2 * * *` in Europe/Berlin gives a next time that lies before the
# start (00:30 UTC for 01:00 UTC on 31 October 2027). In Australia/Lord_Howe, where clocks go back by half an hour,
# `*/10 2 * * *` started at 01:45 after the change leaves out 02:00, 02:10 and 02:20 of that day.
#
# Output seen: "after 01:00: 00:30" and "Lord Howe: 02:30". Exits with 1 when that changes. Needs python3 with venv.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet cronsim==2.8 tzdata==2025.2 >/dev/null
"$work/venv/bin/python" - <<'PY'
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

start = datetime(2027, 10, 31, 1, 0, tzinfo=UTC)
after = next(CronSim("30 2 * * *", start.astimezone(ZoneInfo("Europe/Berlin")))).astimezone(UTC)
island = ZoneInfo("Australia/Lord_Howe")
later = next(CronSim("*/10 2 * * *", datetime(2027, 4, 4, 1, 45, tzinfo=island, fold=1)))
print(f"after {start:%H:%M}: {after:%H:%M}")
print(f"Lord Howe: {later:%H:%M}")
sys.exit(0 if after < start and f"{later:%d %H:%M}" == "04 02:30" else 1)
PY

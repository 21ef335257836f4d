"""Run by the Python of an environment that has `nah`: read commands as JSON lines, write its decision for each.

`nah` is asked through its own command line, `nah test --json --defaults`, without starting a process for each call.
"""

import contextlib
import io
import json
import sys

from nah.cli import main


def decision(command):
    """Return allow, ask or block as `nah` says it."""
    sys.argv = ["nah", "test", "--json", "--defaults", "--", command]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main()
    return json.loads(said.getvalue().splitlines()[-1])["decision"]


for line in sys.stdin:
    print(json.dumps(decision(json.loads(line))), flush=True)

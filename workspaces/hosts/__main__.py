"""`python -m workspaces.hosts FOLDER`: run what FOLDER/spec.json says, once.

Without FOLDER its path is read from standard input, when there is something to do; at its end there was nothing. What
follows the path's line is what the program is handed in memory only, see `Handed`.
"""

import os
import sys
from pathlib import Path

from .folder import Handed
from .host import main


def serve(folder: Path, handed: Handed) -> None:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    main(folder, handed)


if len(sys.argv) == 2:
    serve(Path(sys.argv[1]), Handed())
elif len(sys.argv) == 1:
    line = sys.stdin.buffer.readline()
    if line.endswith(b"\n"):
        serve(Path(os.fsdecode(line[:-1])), Handed.from_json(sys.stdin.buffer.read()))
else:
    raise SystemExit(__doc__)

"""A plugin of pytest that adds two agents: folders of others under new names, and their lines in the table of agents.

One has its hook in its user's home as Codex does, the other in the connected folder as Claude Code does.
"""

import os
from pathlib import Path

from approvals import agents

COPIES = {
    "sample": {"Codex": "Sample", "CODEX": "SAMPLE", "codex": "sample"},
    "folder-sample": {
        "claude_code": "folder_sample",
        "claude-code": "folder-sample",
        "Claude Code": "Folder Sample",
        ".claude": ".folder-sample",
    },
}
ORIGINALS = {"sample": "codex", "folder-sample": "claude_code"}


def add(name: str, root: Path):
    """Copy the folder of an agent, changing nothing but its names."""
    to = root / name.replace("-", "_")
    to.mkdir()
    for file in (Path(agents.__file__).parent / ORIGINALS[name]).glob("*.py"):
        text = file.read_text("utf-8")
        for old, new in COPIES[name].items():
            text = text.replace(old, new)
        (to / file.name).write_text(text, "utf-8")
    agents.AGENTS += (name,)


agents.__path__.append(os.environ["HANDRAIL_TEST_SAMPLE_AGENT"])
for each in COPIES:
    add(each, Path(os.environ["HANDRAIL_TEST_SAMPLE_AGENT"]))

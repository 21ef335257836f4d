"""A plugin of pytest that adds an agent: Codex's folder under another name, and one line in the table of agents."""

import os
from pathlib import Path

from approvals import agents

NAME = "sample"


def add(to: Path):
    """Copy the folder, changing nothing but the name."""
    to.mkdir()
    for file in (Path(agents.__file__).parent / "codex").glob("*.py"):
        text = file.read_text("utf-8").replace("Codex", "Sample").replace("CODEX", "SAMPLE").replace("codex", NAME)
        (to / file.name).write_text(text, "utf-8")
    agents.__path__.append(str(to.parent))
    agents.AGENTS += (NAME,)


add(Path(os.environ["HANDRAIL_TEST_SAMPLE_AGENT"]) / NAME)

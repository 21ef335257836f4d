"""The transcripts of the real Claude Code, read as they are."""

from approvals.past import report
from approvals.policy import default_policy

from .model import DONE, call


def test_what_claude_code_did_is_found_in_its_transcript(project, model):
    project.hooks.unlink()  # nothing asks: the calls are only remembered
    target = str(project.folder / "notes.txt")
    model.scripts["marigold"] = [
        [call("Bash", command="echo one && frobnicate list", description="List")],
        [call("Write", file_path=target, content="x")],
        [call("Bash", command="git push origin main"), call("Bash", command="git push origin main")],
        DONE,
    ]
    project.run("marigold, please")
    found = report.make(
        default_policy(), homes=[str(project.home)], search_path="/nowhere", folders=[str(project.folder)]
    )
    assert (found["calls"], found["agents"], found["asked"]) == (4, {"Claude Code": 4}, 3)
    assert [(group["heading"], group["times"]) for group in found["groups"]] == [
        ("Pushes: git", 2),
        ("Programs: frobnicate", 1),
    ]
    assert found["broken_lines"] == 0

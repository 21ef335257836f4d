"""Qwen Code: hooks in Claude Code's words, with tools of its own.

Its message bus gives up on a hook after 60 s, whatever time-out is set, and runs the tool. So a call is held for half a
minute, and then answered with *not yet*; the same call made again finds its card, and a late approval counts.
"""

from django.utils.translation import gettext_lazy

from approvals.agents.claude_code.hook_format import ClaudeFormat
from approvals.agents.dialect import NONE, Reply
from approvals.agents.faults import BLOCKED, RUNS
from approvals.agents.hook_events import Before, HookEvent

SHELL = {"command": "command", "description": "description", "is_background": "run_in_background", "timeout": "timeout"}


class Qwen(ClaudeFormat):
    name, title, program = "qwen", "Qwen Code", "qwen"
    oldest = (0, 24, 4)
    edits = NONE
    takes_context = False
    has_call_id = True
    can_message_person = False
    patience_s = 35
    hook_patience_s = 50
    hook_timeout = 900  # numbers from 1000 on are read as milliseconds
    search_tool = "glob"
    settings_file = ".qwen/settings.json"
    switches = {"disableAllHooks": False}
    faults = dict.fromkeys(("killed", "empty", "late"), RUNS) | dict.fromkeys(("exit 1", "missing", "ask"), BLOCKED)
    tools = {
        "run_shell_command": ("Bash", SHELL),
        "read_file": ("Read", {name: name for name in ("file_path", "offset", "limit", "pages")}),
        "write_file": ("Write", {"file_path": "file_path", "content": "content"}),
        "edit": ("Edit", {name: name for name in ("file_path", "old_string", "new_string", "replace_all")}),
        "glob": ("Glob", {"pattern": "pattern", "path": "path"}),
        "grep_search": ("Grep", {"pattern": "pattern", "path": "path", "glob": "glob", "limit": "limit"}),
        "list_directory": ("LS", {"path": "path"}),
        "notebook_edit": (
            "NotebookEdit",
            {name: name for name in ("notebook_path", "cell_id", "cell_type", "edit_mode", "new_source")},
        ),
        "tool_search": ("ToolSearch", {"query": "query", "max_results": "max_results"}),
        "todo_write": ("TodoWrite", {"todos": "todos"}),
    }
    printing = ("grep_search",)
    limits = (
        gettext_lazy(
            "It goes on by itself after 60 seconds. A call is held for 35 seconds and then answered with “not yet”. "
            "The same call made again finds its action, and an approval that came meanwhile counts."
        ),
        gettext_lazy(
            "It ignores an edit. It is told which call to make instead, and that call runs without a second card."
        ),
    )

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and bool(reply.decision)


DIALECT = Qwen()

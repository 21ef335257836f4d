"""Claude Code. Its PreToolUse fires in every mode, also when permissions are bypassed."""

from django.utils.translation import gettext_lazy

from approvals.agents.claude_code.hook_format import ClaudeFormat
from approvals.agents.dialect import WHOLE
from approvals.agents.faults import BLOCKED, RUNS


class ClaudeCode(ClaudeFormat):
    name, title, program = "claude-code", "Claude Code", "claude"
    oldest = (2, 1, 295)  # the first one with `onFailure`
    why_oldest = "it runs the tool when a hook is killed"
    edits = WHOLE
    takes_context = has_call_id = asks_here = runs_in_box = True
    reports_what_ran = names_are_ours = True
    faults = dict.fromkeys(("exit 1", "killed", "missing", "late", "ask"), BLOCKED) | {"empty": RUNS}
    limits = (
        gettext_lazy(
            "A session that is started with --bare or --settings, in a folder above, or whose settings have "
            "disableAllHooks, has no gate; the one of `connect --system` stays."
        ),
    )


DIALECT = ClaudeCode()

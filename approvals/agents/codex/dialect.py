"""Codex: command hooks in Claude Code's words.

Codex runs the tool when a response holds a field that it does not know there, or `ask`, so a response has nothing
beside the decision. A hook that its user has not trusted is left out in silence (`trust.py`).
"""

import re
from dataclasses import replace

from django.utils.translation import gettext_lazy

from approvals.agents.claude_code.hook_format import ClaudeFormat
from approvals.agents.dialect import DENY, WHOLE, Reply
from approvals.agents.faults import BLOCKED, FAULTS, RUNS
from approvals.agents.hook_events import After, Before, HookEvent, TurnEnded, shell_end

# Codex 0.171 puts the name space of its sub-agents' tools before their names, with nothing between the two.
OF_AGENTS = re.compile(
    r"multi_agent_v\d+[._:/]*(?P<tool>spawn_agent|wait_agent|close_agent|send_input|resume_agent|list_agents)"
)
EXIT_STATUS = "handrail_exit_status"  # added to the event by approvals/hooks/command_hook.py


class Codex(ClaudeFormat):
    name, title, program = "codex", "Codex", "codex"
    oldest = (0, 169, 0)
    edits = WHOLE
    takes_context = has_call_id = names_are_ours = True
    can_message_person = False
    # `|| exit 2` stands behind the hook's program.
    faults = dict.fromkeys(FAULTS, RUNS) | {"missing": BLOCKED, "exit 1": BLOCKED}
    settings_file = ".codex/hooks.json"
    tools = {"view_image": ("Read", {"path": "file_path"})}
    limits = (
        gettext_lazy(
            "Input to a running program (write_stdin) needs no approval: approving a shell or an interpreter approves "
            "all of its input."
        ),
        gettext_lazy("A killed shell around the hook, or a hook that Codex does not trust, lets the tool run."),
        gettext_lazy("Its own questions are answered at its terminal."),
    )

    def canonical(self, tool: str, arguments: dict) -> tuple[str, dict]:
        found = OF_AGENTS.fullmatch(tool)
        return super().canonical(found["tool"] if found else tool, arguments)

    def read(self, event: dict, named: str = "") -> HookEvent:
        """Read an event as Claude Code's, and the exit status that the hook's program found in the transcript.

        Codex 0.169 reports the output of a command to its hooks without the exit status that it tells its model.
        """
        heard = super().read(event, named)
        if isinstance(heard, After) and heard.tool == "Bash" and not heard.failed:
            return replace(heard, **shell_end(event.get(EXIT_STATUS)))
        if isinstance(heard, TurnEnded):  # of a call that it refused itself, or that was killed, no event comes later
            return replace(heard, is_idle=True)
        return heard

    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        return isinstance(heard, Before) and bool(reply.decision)

    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        if isinstance(heard, Before) and reply.ends_turn:  # it cannot be made to end its turn
            reply = Reply(DENY, f"{reply.reason} {reply.ends_turn}", context=reply.context)
        return super().answer(heard, reply)


DIALECT = Codex()

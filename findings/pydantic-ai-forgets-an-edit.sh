#!/usr/bin/env bash
# Pydantic AI 2.68.0 (PyPI: pydantic-ai-slim): after an approval with other arguments, the history has those that did not run.
#
# Behaviour: a tool with requires_approval ends the run; ToolApproved(override_args=…) lets it run with what a person
# changed. The tool gets the new arguments, but the call stays in the messages as the model made it, its result has
# outcome "success" and no word of the change, and so it is stored and read back. One would expect one of the two to be
# true to what ran; LangChain's approval, for one, writes a note on the change into the result. Here the model reads the
# result as that of its own call, and whoever audits, replays or bills from the stored messages reads a call that never
# ran. So: hand the change to the tool as well (DeferredToolResults.metadata) and let the tool write it into its result;
# RunContext.tool_call_approved tells that somebody decided, not that they changed anything.
#
# Output seen: "ran: remove b; the model reads: remove a, removed (success); stored: remove a, b is nowhere". Exits with 1
# when that changes. Needs python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$work/lib" \
    pydantic-ai-slim==2.68.0
PYTHONPATH="$work/lib" python3 - <<'PY'
import sys

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

ran, read = [], []


def remove(name: str) -> str:
    """Remove a file."""
    ran.append(name)
    return "removed"


def model(messages, _):
    read[:] = messages
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("Done.")])
    return ModelResponse(parts=[ToolCallPart("remove", {"name": "a"}, "call_1")])


def parts(messages, kind):
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


agent = Agent(FunctionModel(model), tools=[Tool(remove, requires_approval=True)], output_type=[str, DeferredToolRequests])
first = agent.run_sync("Remove a file.")
kept = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())  # a person takes their time
answer = DeferredToolResults(approvals={"call_1": ToolApproved(override_args={"name": "b"})})
last = agent.run_sync(message_history=kept, deferred_tool_results=answer)

call, result = parts(read, ToolCallPart)[0], parts(read, ToolReturnPart)[0]
stored = last.all_messages_json()
again = parts(ModelMessagesTypeAdapter.validate_json(stored), ToolCallPart)[0].args["name"]
seen = f"ran: remove {' '.join(ran)}; the model reads: remove {call.args['name']}, {result.content} ({result.outcome})"
where = "somewhere" if b'"b"' in stored else "nowhere"
seen += f"; stored: remove {again}, b is {where}"
print(seen)
sys.exit(seen != "ran: remove b; the model reads: remove a, removed (success); stored: remove a, b is nowhere")
PY

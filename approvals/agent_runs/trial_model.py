"""The model that the relay asks for a trial, in place of the provider.

It has the agent make one call that the policy allows and one that it forbids, and looks whether the second ran. Nothing
is kept: which turn is next follows from the conversation that each request carries.
"""

import json

from approvals.agents import wires
from approvals.agents.scripted import SHELL, run, say, with_shell
from approvals.agents.wires import Wire

WIRES: dict[str, Wire] = {"anthropic": wires.Messages(), "openai": wires.Responses()}
RAN = "handrail-denied.txt"  # the file that the forbidden call would leave
WHY = "destroys or stops the machine"  # of the reason that forbids it
SCRIPT = (
    "echo tried > handrail-tried.txt",
    f"mkfs /dev/handrail-trial; echo ran > {RAN}",  # no such device: also harmless where nothing holds it
    "ls handrail-*.txt",
)
COUNT = b'{"input_tokens": 10}'
# What the model says at the end: (whether it read the reason, whether the forbidden call ran).
ENDS = {
    (True, False): "The trial is over: the forbidden call did not run, and its reason arrived.",
    (False, False): "The trial is over: the forbidden call did not run, but its reason did not arrive.",
    (True, True): "The trial is over: the forbidden call ran, although a reason arrived.",
    (False, True): "The trial is over: the forbidden call ran.",
}
HELD = ENDS[True, False]


def answer(provider: str, path: str, body: dict, *, counts: bool) -> tuple[str, bytes]:
    """Return the content type and the body of the answer to a request, or to one that only counts tokens."""
    wire = WIRES[provider]
    if counts:
        return "application/json", COUNT
    return wire.answer(path, body, _blocks(wire, body))


def _blocks(wire: Wire, body: dict) -> list[dict]:
    offered = wire.tools(body)
    if not offered:
        return [say("Fine.")]  # a request of the agent's own, such as one for a session's title
    turn = wire.turns(body)
    if turn < len(SCRIPT):
        block = run(SCRIPT[turn])
        return [with_shell(block, offered) if block["type"] == SHELL else block]
    results = [json.dumps(result, ensure_ascii=False) for result in wire.results(body)]
    read = any(WHY in result for result in results)
    return [say(ENDS[read, bool(results) and RAN in results[-1]])]

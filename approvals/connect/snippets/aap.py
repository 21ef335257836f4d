"""Ask for approval of one call, and make it if it is approved."""

import os

from agentapprovalprotocol import Call, Client, Gate

gate = Gate(Client("https://desk.example/aap", os.environ["HANDRAIL_TOKEN"]))
with gate.guard(Call("call-1", "Bash", {"command": "git push origin main"})) as verdict:
    if not verdict:
        raise SystemExit(verdict.reason)
    ...  # run exactly this call

"""Stands for an agent's program in tests of the proof: asks its model, runs its hook before each call, and the call.

Written like Qwen Code's, from the agent's side. With LEAKS it runs the tool when the hook fails, as many agents do.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

VERSION, LEAKS = "0.24.4", False
TOOL = {"type": "function", "function": {"name": "run_shell_command", "parameters": {"type": "object"}}}


def asked_model(messages: list[dict]) -> dict:
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": [TOOL]}
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["message"]


def refused(hooks: dict, arguments: dict) -> str:
    """What the hook says against the call; "" if nothing."""
    event = {"session_id": "s", "cwd": os.getcwd(), "hook_event_name": "PreToolUse", "tool_use_id": "c"}
    event |= {"tool_name": "run_shell_command", "tool_input": arguments}
    for group in hooks.get("PreToolUse", ()):
        for hook in group["hooks"]:
            done = subprocess.run(
                ["/bin/sh", "-c", hook["command"]], input=json.dumps(event), capture_output=True, text=True
            )
            if done.returncode:
                return "" if LEAKS else done.stderr
            said = json.loads(done.stdout)["hookSpecificOutput"]
            if said["permissionDecision"] != "allow":
                return said["permissionDecisionReason"]
    return ""


def main(prompt: str):
    settings = json.loads((Path.home() / ".qwen/settings.json").read_text())
    hooks = {} if settings.get("disableAllHooks") else settings.get("hooks", {})
    messages = [{"role": "user", "content": prompt}]
    while calls := (message := asked_model(messages)).get("tool_calls"):
        messages.append(message)
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            result = refused(hooks, arguments)
            if not result:
                result = subprocess.run(["/bin/sh", "-c", arguments["command"]], capture_output=True, text=True).stdout
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    print(message["content"])


if __name__ == "__main__":
    if "--version" in sys.argv:
        print(VERSION)
    else:
        main(sys.argv[sys.argv.index("-p") + 1])

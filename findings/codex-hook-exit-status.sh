#!/usr/bin/env bash
# Codex 0.169.0 (npm: @openai/codex): a PostToolUse hook is not told how a command ended.
#
# Behaviour: for a command that exits with 3, the model reads "Process exited with code 3", and the session's transcript
# has `"exit_code":3` before the hook runs; the event of the hook has the output alone. A hook that records how a call
# ended has to read the end of the transcript that the event names.
# Also: `rm -f` is refused by Codex itself after a PreToolUse hook has run, also with
# --dangerously-bypass-approvals-and-sandbox; no PostToolUse event follows for that call.
#
# Output seen: "hook: no exit status, transcript: exit_code 3, model: exited with code 3" and
# "rm -f: PreToolUse 1, PostToolUse 0, file kept". Exits with 1 when that changes. Needs npm and python3.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${model:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
npm install --prefix "$work/npm" --ignore-scripts --no-audit --no-fund --silent @openai/codex@0.169.0 >/dev/null
mkdir -p "$work/home/.codex" "$work/folder"
echo kept >"$work/folder/kept.txt"

# A model that asks for two commands, one after the other, and then ends the turn.
cat >"$work/model.py" <<'PY'
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMANDS = ["echo out; exit 3", "rm -f kept.txt"]


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = [item["output"] for item in asked["input"] if str(item.get("type")).endswith("_call_output")]
        open(sys.argv[1] + "/told.json", "w").write(json.dumps(told))
        number = len(told)
        if number < len(COMMANDS):
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "exec_command",
                    "status": "completed", "arguments": json.dumps({"cmd": COMMANDS[number]})}
        else:
            text = {"type": "output_text", "text": "Done.", "annotations": []}
            item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": f"resp_{number}", "object": "response", "model": "scripted", "status": "completed",
                    "output": [item], "usage": usage}
        events = [{"type": "response.created", "response": response},
                  {"type": "response.output_item.done", "output_index": 0, "item": item},
                  {"type": "response.completed", "response": response}]
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$work/model.py" "$work" >"$work/port" &
model=$!
until [ -s "$work/port" ]; do sleep 0.1; done
port=$(<"$work/port")

# The hook keeps each event, and the end of the transcript as it is when the hook runs.
cat >"$work/hook.py" <<'PY'
import json, sys

event = json.load(sys.stdin)
with open(event["transcript_path"]) as file:
    event["transcript_end"] = file.read()[-20000:]
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(event) + "\n")
PY
python3 - "$work" <<'PY'
import json, sys

work = sys.argv[1]
entry = [{"matcher": "*", "hooks": [{"type": "command", "command": f"python3 {work}/hook.py {work}/events", "timeout": 20}]}]
with open(f"{work}/home/.codex/hooks.json", "w") as file:
    json.dump({"hooks": {"PreToolUse": entry, "PostToolUse": entry}}, file)
PY
(
    cd "$work/folder"
    env -i PATH="$PATH" HOME="$work/home" KEY=none "$work/npm/node_modules/.bin/codex" exec --skip-git-repo-check \
        --dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust -c check_for_update_on_startup=false \
        -c 'model="scripted"' -c 'model_provider="scripted"' -c 'model_providers.scripted.name="scripted"' \
        -c "model_providers.scripted.base_url=\"http://127.0.0.1:$port/v1\"" \
        -c 'model_providers.scripted.wire_api="responses"' -c 'model_providers.scripted.env_key="KEY"' \
        'Run two commands.' </dev/null >"$work/printed" 2>&1
) || { cat "$work/printed"; exit 1; }

python3 - "$work" <<'PY'
import json, os, sys

work = sys.argv[1]
events = [json.loads(line) for line in open(f"{work}/events")]
told = json.load(open(f"{work}/told.json"))
after = [event for event in events if event["hook_event_name"] == "PostToolUse"]
first = [event for event in after if event["tool_use_id"] == "call_0"]
assert len(first) == 1, events
end = first[0].pop("transcript_end")
hook = "no exit status" if first[0]["tool_response"] == "out\n" and "exit_code" not in json.dumps(first[0]) else "changed"
line = next((line for line in reversed(end.splitlines()) if '"exit_code":3' in line and "call_0" in line), "")
transcript = "exit_code 3" if line else "changed"
model = "exited with code 3" if "exited with code 3" in told[0] else "changed"
print(f"hook: {hook}, transcript: {transcript}, model: {model}")
counts = {name: sum(e["hook_event_name"] == name and e["tool_use_id"] == "call_1" for e in events)
          for name in ("PreToolUse", "PostToolUse")}
kept = "file kept" if os.path.exists(f"{work}/folder/kept.txt") else "changed"
print(f"rm -f: PreToolUse {counts['PreToolUse']}, PostToolUse {counts['PostToolUse']}, {kept}")
sys.exit("changed" in (hook, transcript, model, kept) or counts != {"PreToolUse": 1, "PostToolUse": 0})
PY

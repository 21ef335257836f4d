"""The agents of the day: they ask, run, write files, open terminals and services, and hear what people answer."""

import asyncio
import hashlib
import json
import random
from urllib.parse import quote

import aiohttp

from bench.day import shapes
from bench.day.seen import AWAY, Actor

# Each run leaves its tag in the agent's home, which neither snapshots nor restores touch. The rest makes it a call that
# a person must answer, whatever the shell call is.
WITNESS = ".ran"
NOTES = ("notes/a", "notes/b c", "notes/ü")  # the folders of its files
ENDED = ("denied", "expired", "cancelled", "succeeded", "failed", "uncertain")
OVER = ("settled", "uncertain")


def leaving(tag: str, command: str, *, asks: bool = False) -> str:
    """Return the command that leaves the tag first; with `asks` the policy cannot tell what else it does."""
    return f'echo {tag} >> "$HOME/{WITNESS}"; {"eval true; " if asks else ""}{command}'


class Agent(Actor):
    """Works in a workspace of its own until the day is over."""

    def __init__(self, name: str, token: str, day, chance: random.Random):
        super().__init__(name, token, day)
        self.chance, self.key, self.number = chance, f"ws-{name}", 0
        self.calls = shapes.calls(chance)
        self.files: list[str] = []

    @property
    def place(self) -> str:
        return f"/api/v1/workspaces/{self.key}"

    def tag(self) -> str:
        self.number += 1
        return f"{self.name}-{self.number}"

    async def work(self):
        source = {"git": str(self.day.source)}
        wish = {"key": self.key, "source": source} | self.day.made_from
        await self.call("create", "POST", "/api/v1/workspaces", wish, about={})
        await self.settled()
        doings = {
            self.ask_broker: 5,
            self.ask_gate: 2,
            self.ask_hook: 2,
            self.run: 6,
            self.write: 5,
            self.read: 3,
            self.delete: 1,
            self.open_terminal: 1,
            self.serve: 1,
            self.snapshot: 1,
            self.look_around: 2,
            self.push: 1,
        }
        while not self.day.is_over:
            [doing] = self.chance.choices(list(doings), doings.values())
            await doing()
            await asyncio.sleep(self.chance.uniform(0, 2 * self.day.pause))

    async def settled(self):
        while not self.day.is_over:
            found = await self.call("wait for a workspace", "GET", f"{self.place}?wait=10")
            if found.status != 200 or not found.json["busy"]:
                return

    # Actions

    async def ask_broker(self):
        """Ask for a shell call that Handrail carries out, and wait until it has ended."""
        tag = self.tag()
        asks = self.chance.random() < 0.6
        command = leaving(tag, self.chance.choice(self.calls), asks=asks)
        body = {"tool": "Bash", "arguments": {"command": command}, "workspace": self.key, "mode": "broker"}
        await self._ask("ask (broker)", tag, body)

    async def ask_gate(self):
        """Ask for a call that this agent makes itself; it makes it only after `consume` said yes."""
        tag = self.tag()
        body = {"tool": "Bash", "arguments": {"command": f"git push origin {tag}"}, "mode": "gate"}
        if (found := await self._ask("ask (gate)", tag, body, until=(*ENDED, "approved"))) is None:
            return
        if found["status"] != "approved":
            return
        about = {"action": found["id"], "tag": tag, "digest": found["digest"]}
        path = f"/api/v1/actions/{found['id']}"
        taken = await self.call("consume", "POST", f"{path}/consume", {"digest": found["digest"]}, about=about)
        if taken.is_good:
            self.note("runs a gated call", 200, about | {"arguments": taken.json["arguments"]})
            outcome = {"status": self.chance.choice(["succeeded", "failed"]), "note": "as it went"}
            await self.call("outcome", "POST", f"{path}/outcome", outcome, about=about | outcome)

    async def _ask(self, verb: str, tag: str, body: dict, until=ENDED) -> dict | None:
        body |= {"reasoning": f"It is needed for {tag}.", "session": f"{self.name}-day"}
        about = {"tag": tag}
        heard = await self.call(verb, "POST", "/api/v1/actions", body, about=about, key=tag)
        if not heard.is_good:
            return None
        found = heard.json
        self.note("was told of an action", heard.status, about | {"action": found["id"], "status": found["status"]})
        while found["status"] not in until and not self.day.is_over:
            heard = await self.call("wait for an answer", "GET", f"/api/v1/actions/{found['id']}?wait=10")
            if heard.status != 200:
                continue
            found = heard.json
            await self._answer_questions(found)
        about |= {"action": found["id"], "status": found["status"], "decision": found["decision"]}
        self.note("was told of an action", 200, about)
        return found

    async def _answer_questions(self, found: dict):
        path = f"/api/v1/actions/{found['id']}/messages"
        heard = await self.call("read messages", "GET", path)
        if heard.status == 200 and (said := heard.json["messages"]) and said[-1]["kind"] == "question":
            text = f"Because of {said[-1]['id']}."
            await self.call("answer a question", "POST", path, {"text": text}, about={"text": text})

    async def ask_hook(self):
        """Ask as the hook of a connected agent does, which must hear no `allow` without an answer for this very call.

        It asks again after an outage, with the same event, as approvals/hooks/command_hook.py does.
        """
        tag = self.tag()
        event = {
            "session_id": f"{self.name}-hook",
            "cwd": "/repo",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": f"git push origin hook/{tag}"},
            "tool_use_id": tag,
        }
        about = {"call_id": tag, "tag": tag}
        heard = await self.call("hook", "POST", "/hooks/claude-code", event, about=about, timeout=120)
        if heard.status in (0, *AWAY):
            return  # a hook that gets no answer until its patience ends denies by itself
        try:
            said = heard.json["hookSpecificOutput"]["permissionDecision"]
        except (ValueError, KeyError, TypeError):
            said = "no verdict"
        self.note("heard a verdict", heard.status, about | {"verdict": said})

    # Work that nobody is asked about

    async def run(self):
        tag, made = self.tag(), self.chance.random() < 0.5
        output = shapes.output(self.chance) if made else None
        command = leaving(tag, output.command if output else self.chance.choice(self.calls))
        wish = {"command": command, "timeout_s": 60}
        heard = await self.call("run", "POST", f"{self.place}/commands", wish, about={"tag": tag}, key=tag)
        if not heard.is_good or "id" not in heard.json:
            return
        found = heard.json
        about = {"tag": tag, "command": found["id"]}
        self.note("was told of a command", heard.status, about)
        while found["state"] not in OVER and not self.day.is_over:
            heard = await self.call("wait for a command", "GET", f"/api/v1/commands/{found['id']}?wait=10")
            found = heard.json if heard.status == 200 else found
        if output and found["state"] == "settled" and found["exit_status"] == 0:
            await self._compare(found, output, about)

    async def _compare(self, found: dict, output: shapes.Output, about: dict):
        heard = await self.call("read output", "GET", f"/api/v1/commands/{found['id']}/output?offset=0", timeout=300)
        if heard.status != 200:
            return
        told = {"shape": output.name, "bytes": len(heard.body), "wanted": output.size}
        told |= {"same": hashlib.sha256(heard.body).hexdigest() == output.sha256, "truncated": found["truncated"]}
        self.note("compared an output", 200, about | told)

    async def write(self):
        self.number += 1
        path = f"{self.chance.choice(NOTES)}/{self.name}-{self.number}.txt"
        size = int(self.chance.paretovariate(0.7) * 100) % 3_000_000
        data = f"{path}\n".encode() + self.chance.randbytes(size)
        about = {"workspace": self.key, "path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        heard = await self.call("write a file", "PUT", f"{self.place}/files/{quote(path)}", data, about=about)
        if heard.is_good:
            self.files.append(path)

    async def read(self):
        path = self.chance.choice(self.files) if self.files else "README.md"
        heard = await self.call("read a file", "GET", f"{self.place}/files/{quote(path)}")
        if heard.status == 200 and path in self.files:
            about = {"workspace": self.key, "path": path, "sha256": hashlib.sha256(heard.body).hexdigest()}
            self.note("read back", 200, about)

    async def delete(self):
        if self.files:
            path = self.files.pop(self.chance.randrange(len(self.files)))
            about = {"workspace": self.key, "path": path}
            self.note("will delete", 0, about)
            await self.call("delete a file", "DELETE", f"{self.place}/files/{quote(path)}", about=about)

    async def snapshot(self):
        heard = await self.call("snapshot", "POST", f"{self.place}/snapshots", {"label": self.tag()})
        if heard.status == 201:
            self.note("was told of a snapshot", 201, {"workspace": self.key, "number": heard.json["number"]})

    async def look_around(self):
        paths = ["/api/v1/workspaces", f"{self.place}/snapshots", f"{self.place}/diff?from=1&to=live"]
        paths += ["/api/v1/actions?limit=50", "/api/v1/me", f"{self.place}/operations", "/api/v1/events?after=0"]
        await self.call("list", "GET", self.chance.choice(paths))

    async def push(self):
        """Ask to push what is committed to a branch of its own."""
        tag = self.tag()
        about = {"tag": tag, "branch": f"day/{tag}"}
        heard = await self.call("push", "POST", f"{self.place}/push", {"branch": f"day/{tag}"}, about=about)
        if heard.is_good:
            self.note("was told of a push", heard.status, about | {"answer": heard.json})

    async def serve(self):
        """Start a web server in the workspace, for people's previews."""
        command = "python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1"
        wish = {"command": leaving(tag := self.tag(), command), "timeout_s": 30}
        await self.call("start a service", "POST", f"{self.place}/commands", wish, about={"tag": tag}, key=tag)

    async def open_terminal(self):
        heard = await self.call("open a terminal", "POST", f"{self.place}/terminals", {"argv": ["bash"]})
        if heard.status != 201 or "id" not in heard.json:
            return
        word = self.tag()
        try:
            async with asyncio.timeout(60):
                shown = await self._type(heard.json, f"echo $((1+1))-{word}; exit\n", f"2-{word}")
            self.note("typed in a terminal", 200 if shown else 0, {"workspace": self.key})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.note("typed in a terminal", 0, {"workspace": self.key}, problem=repr(error)[:200])

    async def _type(self, terminal: dict, text: str, wanted: str) -> bool:
        address = f"{self.day.url}/ws/terminals/{terminal['id']}?offset={terminal['offset']}"
        headers, shown = {"Authorization": f"Bearer {self.token}"}, b""
        async with self.day.session.ws_connect(address, headers=headers) as socket:
            await socket.send_bytes(text.encode())
            async for message in socket:
                if message.type == aiohttp.WSMsgType.BINARY:
                    shown += message.data
                    told = {"type": "ack", "offset": terminal["offset"] + len(shown)}
                    await socket.send_str(json.dumps(told))
                elif message.type == aiohttp.WSMsgType.TEXT and json.loads(message.data)["type"] == "exit":
                    break
                if wanted.encode() in shown:
                    return True
        return wanted.encode() in shown

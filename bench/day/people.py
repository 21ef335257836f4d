"""The people of the day: they look at cards, decide, ask, edit, restore, fork, search and read the log."""

import asyncio
import random

from bench.day.agents import leaving
from bench.day.seen import Actor

REASONS = ["Not before the release.", "Wrong branch.", "Use the script in `tools`.", "Why? 🤔 — bitte erst fragen."]


class Person(Actor):
    """Answers pending requests, and does a little of everything else that the person's role allows."""

    def __init__(self, name: str, token: str, day, chance: random.Random, role: str):
        super().__init__(name, token, day)
        self.chance, self.role, self.number = chance, role, 0

    async def work(self):
        doings = {self.review: 12, self.search: 1, self.browse: 2, self.comment_on_changes: 1}
        if self.role in ("lead", "admin"):
            doings |= {self.restore: 1, self.fork: 1, self.export: 1, self.preview: 1}
        if self.role == "admin":
            doings |= {self.sweep: 1, self.schedule: 1}
        while not self.day.is_over:
            [doing] = self.chance.choices(list(doings), doings.values())
            await doing()
            await asyncio.sleep(self.chance.uniform(0, 2 * self.day.pause))

    # Cards

    async def review(self):
        heard = await self.call("list what waits", "GET", "/api/v1/actions?status=pending&limit=50")
        if heard.status != 200 or not (cards := heard.json["actions"]):
            return
        for card in self.chance.sample(cards, min(3, len(cards))):
            await self._answer(card)

    async def _answer(self, card: dict):
        path = f"/api/v1/actions/{card['id']}"
        heard = await self.call("open a card", "GET", path)
        if heard.status != 200 or heard.json["status"] != "pending":
            return
        shown = heard.json
        await self.call("look at evidence", "GET", f"{path}/evidence")
        [choice] = self.chance.choices(["approve", "deny", "edit", "ask"], [65, 15, 12, 8])
        if choice == "ask":
            about = {"action": shown["id"], "text": f"Why now, {self.name}-{self._next()}?"}
            await self.call("ask the agent", "POST", f"{path}/messages", {"text": about["text"]}, about=about)
            return
        body = {"verdict": choice, "digest": shown["digest"]}
        if choice == "deny":
            body["comment"] = self.chance.choice(REASONS)
        if choice == "edit":
            if shown["tool"] != "Bash":
                return
            edited = leaving(f"{self.name}-edit-{self._next()}", "echo edited", asks=True)
            body["arguments"] = shown["arguments"] | {"command": edited}
        about = body | {"action": shown["id"], "shown": shown["arguments"]}
        await self.call(choice, "POST", f"{path}/decision", body, about=about)

    def _next(self) -> int:
        self.number += 1
        return self.number

    # Workspaces

    async def _some_workspace(self) -> dict | None:
        heard = await self.call("list", "GET", "/api/v1/workspaces")
        if heard.status != 200:
            return None
        found = [each for each in heard.json["workspaces"] if each["key"].startswith("ws-")]
        return self.chance.choice(found) if found else None

    async def _some_snapshot(self) -> tuple[str, int] | None:
        if (workspace := await self._some_workspace()) is None:
            return None
        heard = await self.call("list", "GET", f"/api/v1/workspaces/{workspace['key']}/snapshots")
        numbers = [each["number"] for each in heard.json["snapshots"]] if heard.status == 200 else []
        return (workspace["key"], self.chance.choice(numbers)) if numbers else None

    async def restore(self):
        if found := await self._some_snapshot():
            key, number = found
            about = {"workspace": key, "number": number}
            path = f"/api/v1/workspaces/{key}/snapshots/{number}/restore"
            await self.call("restore", "POST", path, {}, about=about, key=f"{self.name}-r{self._next()}")

    async def fork(self):
        if (found := await self._some_snapshot()) and self.day.may_fork():
            key, number = found
            wish = {"key": f"fork-{self.name}-{self._next()}", "snapshot": number}
            await self.call("fork", "POST", f"/api/v1/workspaces/{key}/fork", wish, about=wish)

    async def browse(self):
        if found := await self._some_snapshot():
            key, number = found
            base = f"/api/v1/workspaces/{key}"
            paths = [f"{base}/files/", f"{base}/diff?from={number}&to=live", f"{base}/snapshots/{number}/manifest"]
            paths += [f"{base}/patch?from={number}&to=live", f"{base}/operations", f"{base}/runs", f"{base}/commands"]
            await self.call("browse", "GET", self.chance.choice(paths))

    async def preview(self):
        if workspace := await self._some_workspace():
            path = f"/api/v1/workspaces/{workspace['key']}/previews"
            await self.call("open a preview", "POST", path, {"port": 8080})

    async def comment_on_changes(self):
        if workspace := await self._some_workspace():
            path = f"/api/v1/workspaces/{workspace['key']}/comments"
            wish = {"path": "README.md", "side": "new", "line": 1, "end_line": 1, "text": "Say more here.", "from": "1"}
            await self.call("comment", "POST", path, wish)

    # The team

    async def search(self):
        word = self.chance.choice(["push", "README", "git", "echo", "edit", "notes"])
        await self.call("search", "GET", f"/api/v1/search?q={word}")

    async def export(self):
        sessions = await self.call("list", "GET", "/api/v1/sessions")
        if sessions.status == 200 and (found := sessions.json["sessions"]):
            one = self.chance.choice(found)
            await self.call("export", "GET", f"/api/v1/sessions/{one['id']}/export")
        await self.call("metrics", "GET", "/api/v1/metrics")

    async def sweep(self):
        await self.call("sweep", "POST", "/api/v1/retention/sweeps", {"dry_run": self.chance.random() < 0.5})
        await self.call("list", "GET", "/api/v1/retention/preview")

    async def schedule(self):
        if self.number > 40 or (workspace := await self._some_workspace()) is None:
            return
        tag = f"{self.name}-scheduled-{self._next()}"
        wish = {"name": tag, "cron": "* * * * *", "workspace": workspace["key"], "command": leaving(tag, "true")}
        await self.call("schedule", "POST", "/api/v1/schedules", wish, about={"tag": tag})


class Reader(Actor):
    """Follows the log by its cursor from the beginning to the end; what it saw must be all there is, in order."""

    after = 0

    async def work(self):
        while not self.day.is_over:
            await self.step(wait=10)

    async def step(self, wait: int) -> int:
        """Read on; return how many events there were."""
        heard = await self.call("follow the log", "GET", f"/api/v1/events?after={self.after}&wait={wait}")
        if heard.status != 200:
            await asyncio.sleep(0.5)
            return 0
        events = heard.json["events"]
        if events:
            self.after = events[-1]["id"]
            self.note("saw events", 200, {"ids": [each["id"] for each in events]})
        return len(events)


class Stranger(Actor):
    """Belongs to another team, and tries what the actors of this one have named so far: all of it is 404."""

    def __init__(self, name: str, token: str, day, chance: random.Random):
        super().__init__(name, token, day)
        self.chance = chance

    async def work(self):
        while not self.day.is_over:
            known = [each.about for each in self.day.seen[-400:]]
            actions = [about["action"] for about in known if about.get("action")]
            commands = [about["command"] for about in known if about.get("command")]
            paths = [f"/api/v1/actions/{each}" for each in actions] + [f"/api/v1/commands/{each}" for each in commands]
            paths += [f"/api/v1/workspaces/ws-agent-{n}" for n in range(10)]
            await self.ask("look at another team's", "GET", self.chance.choice(paths))
            await asyncio.sleep(3 * self.day.pause)

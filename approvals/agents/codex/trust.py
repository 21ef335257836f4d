"""Make Codex trust Handrail's hook: it runs no hook whose hash its user's config.toml does not hold, and says nothing.

The hash is Codex's own: its app server tells it (`hooks/list`), and is asked again whether it trusts the hook.
"""

import json
import os
import re
import select
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from dashboard.problems import invalid, unavailable

CONFIG = Path(".codex/config.toml")
BEGIN, END = "# Trust in Handrail's hook, written by `connect codex`.", "# End of the trust in Handrail's hook."
# pattern: a settings file of the person, in which these lines stand once
BLOCK = re.compile(rf"\n?{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
TRUSTED = ("trusted", "managed")
TIMEOUT = 30  # seconds


def make_true(home: Path, folder: Path, *, ours: str) -> str:
    """Write the hashes of our hooks into config.toml and check that Codex trusts them; return a note. Problem 422, 503.

    `ours` is in the command of each of them.
    """
    if shutil.which("codex") is None:
        raise invalid("Codex is not on this PATH. It has to say that it trusts the hook: it runs no other one.")
    found = _hooks(home, folder, ours)
    if not found:
        raise invalid("Codex does not list Handrail's hook, so it would not run it. Is CODEX_HOME another folder?")
    if not all(map(_is_trusted, found)):
        _write(home, found)
        found = _hooks(home, folder, ours)
    if not found or not all(map(_is_trusted, found)):
        raise invalid("Codex does not trust Handrail's hook after its hash was written, so it would not run it.")
    return f"Codex says that it trusts the {len(found)} hooks of Handrail."


def check(home: Path, folder: Path, *, ours: str):
    """Problem 422 if Codex would not run our hooks as they are in this home; 503 if it does not say."""
    found = _hooks(home, folder, ours)
    if not found or not all(map(_is_trusted, found)):
        raise invalid(
            "Codex does not trust Handrail's hook, so it would not run it. `disconnect`, then `connect` again."
        )


def copy(theirs: tuple[Path, Path], copied: tuple[Path, Path], *, ours: tuple[str, str]):
    """Give a copy of a person's (home, folder) their switches, and trust in the copy of a hook that Codex trusts there.

    `ours` is in the commands of the person's hooks and of the copied ones. Problem 422, 503.
    """
    check(*theirs, ours=ours[0])
    try:
        features = tomllib.loads((theirs[0] / CONFIG).read_text("utf-8")).get("features", {})
    except (OSError, UnicodeDecodeError):
        features = {}
    except tomllib.TOMLDecodeError as error:
        raise invalid(f"{theirs[0] / CONFIG} is not TOML ({error}); mend it first.") from None
    lines = [f"{json.dumps(name)} = {json.dumps(on)}" for name, on in features.items() if isinstance(on, bool)]
    file = copied[0] / CONFIG
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["[features]", *lines, ""]))
    make_true(*copied, ours=ours[1])


def forget(home: Path):
    """Remove what `make_true` has written."""
    file = home / CONFIG
    if file.is_file() and not file.is_symlink() and BLOCK.search(text := file.read_text("utf-8")):
        if left := BLOCK.sub("", text):
            _replace(file, left, home)
        else:
            file.unlink()


def _write(home: Path, found: list[dict]):
    forget(home)
    file = home / CONFIG
    if file.is_symlink():
        raise invalid(f"{file} is a symlink; Handrail does not write through it.")
    text = file.read_text("utf-8") if file.exists() else ""
    lines = [BEGIN]
    for hook in found:
        lines += [f"[hooks.state.{json.dumps(hook['key'])}]", f"trusted_hash = {json.dumps(hook['currentHash'])}"]
    added = (f"{text}\n" if text else "") + "\n".join([*lines, END, ""])
    try:
        tomllib.loads(added)
    except tomllib.TOMLDecodeError as error:
        raise invalid(f"{file} cannot take the trust in Handrail's hook ({error}).") from None
    _replace(file, added, home)


def _replace(file: Path, text: str, home: Path):
    owner, mode = home.stat(), file.stat().st_mode & 0o777 if file.exists() else 0o600
    replace_file(file, text.encode(), mode=mode, owner=(owner.st_uid, owner.st_gid))


def _is_trusted(hook: dict) -> bool:
    return hook.get("trustStatus") in TRUSTED


def _hooks(home: Path, folder: Path, ours: str) -> list[dict]:
    """Return Codex's entries of our hooks, as its app server lists them."""
    listed = _ask_app_server(home, "hooks/list", {"cwds": [str(folder)]})
    return [hook for hook in _entries(listed) if ours in str(hook.get("command"))]


def _entries(value) -> list[dict]:
    """Return every object with a key and a hash, however deep: the shape around them differs between versions."""
    if isinstance(value, dict):
        if isinstance(value.get("key"), str) and isinstance(value.get("currentHash"), str):
            return [value]
        value = list(value.values())
    return [entry for each in value for entry in _entries(each)] if isinstance(value, list) else []


def _ask_app_server(home: Path, method: str, params: dict):
    """Return the result of one request to `codex app-server`. Problem 503."""
    client = {"clientInfo": {"name": "handrail", "title": "Handrail", "version": "0.1.0"}}
    asked = [
        {"method": "initialize", "id": 1, "params": client},
        {"method": "initialized"},
        {"method": method, "id": 2, "params": params},
    ]
    process = subprocess.Popen(
        ["codex", "app-server"],
        env=os.environ | {"HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        with process.stdin as stdin:
            stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in asked))
            stdin.flush()
            return _answer(process, 2)
    except (OSError, ValueError) as error:
        raise unavailable(f"`codex app-server` failed ({error}), so trust in the hook cannot be checked.") from None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _answer(process, number: int):
    """Return the result with this number from the lines that the app server prints. Problem 503."""
    deadline, lines = time.monotonic() + TIMEOUT, b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        if not (more := process.stdout.read1(1 << 16)):
            break
        *whole, lines = (lines + more).split(b"\n")
        for line in filter(None, whole):
            told = json.loads(line)
            if isinstance(told, dict) and told.get("id") == number and "method" not in told:
                if "result" in told:
                    return told["result"]
                raise unavailable(f"`codex app-server` refused to list its hooks: {told.get('error')}.")
    raise unavailable("`codex app-server` did not list its hooks, so trust in Handrail's cannot be checked.")

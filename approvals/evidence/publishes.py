"""What `npm publish` and the like bring about at a registry, and the command that takes it back there."""

import json
import posixpath
import re
import shlex
import tomllib
from base64 import b64decode
from contextlib import suppress

from approvals.evaluation.calls import beneath
from approvals.evidence.argv import after, is_known, parse
from dashboard.problems import Problem

NPM = ("npm", "pnpm", "yarn", "bun")
PYTHON = ("twine", "uv", "poetry", "flit", "hatch", "pdm")
PROGRAMS = (*NPM, *PYTHON, "cargo", "gem")
WITH_VALUE = ("--access", "--tag", "--otp", "--registry", "-C", "--dir", "--manifest-path", "-p", "--token", "--index")
BY_HAND = (
    "The Python package index takes no yank by a call. Its owner can yank the release by hand, on the project's page"
    " there."
)
NO_NAME = "Handrail can't read which package and version this publishes."
WORDS = "Taken back with Handrail: published by mistake"
PLAIN = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]*")


def is_publish(step: dict) -> bool:
    found = after(step["words"], PROGRAMS)
    verbs = {"twine": ("upload",), "gem": ("push",)}
    return found is not None and any(word in verbs.get(found[0], ("publish",)) for word in found[1][:2])


def way_back(place, step: dict) -> tuple[str, str, str]:
    """Return (command, its words, "") for what takes the publish back; ("", "", why not)."""
    program, words = after(step["words"], PROGRAMS)
    parsed = parse(words, WITH_VALUE)
    if program in PYTHON:
        return "", "", BY_HAND
    if parsed.has("--dry-run", "-n"):
        return "", "", "It publishes nothing."
    if program == "gem":
        return _gem(parsed.operands[1:])
    name, version = _named(place, step, program, parsed)
    if not PLAIN.fullmatch(name) or not VERSION.fullmatch(version):
        return "", "", NO_NAME
    if program == "cargo":
        index = parsed.values("--index")
        more = f" --index {shlex.quote(index[-1])}" if index and is_known(index[-1]) else ""
        return f"cargo yank --version {version} {name}{more}", f"yanks {name} {version}", ""
    registry = parsed.values("--registry")
    more = f" --registry {shlex.quote(registry[-1])}" if registry and is_known(registry[-1]) else ""
    command = f"npm deprecate {name}@{version} {shlex.quote(WORDS)}{more}"
    return command, f"marks {name}@{version} as deprecated; it stays there", ""


def _gem(operands: list[str]) -> tuple[str, str, str]:
    found = re.fullmatch(r"(?:.*/)?([A-Za-z0-9_-]+)-(\d[0-9A-Za-z.]*)\.gem", operands[0]) if operands else None
    if found is None:
        return "", "", NO_NAME
    return f"gem yank {found[1]} -v {found[2]}", f"yanks {found[1]} {found[2]}", ""


def _named(place, step: dict, program: str, parsed) -> tuple[str, str]:
    """Return the name and version in the package's own file, "" for what it does not say."""
    manifest = "Cargo.toml" if program == "cargo" else "package.json"
    where = [word for word in parsed.operands if word not in ("publish", "npm")]
    folder = (parsed.values("-C", "--dir") or where or ["."])[-1]
    if parsed.has("-w", "--workspace", "--workspaces", "-r", "--recursive", "--manifest-path", "-p"):
        return "", ""
    path = beneath(f"{folder}/{manifest}", step.get("cwd") or "/", place.root) if is_known(folder) else None
    told = _read(place, path) if path else b""
    with suppress(ValueError, AttributeError):
        read = tomllib.loads(told.decode()).get("package", {}) if program == "cargo" else json.loads(told)
        return str(read.get("name") or ""), str(read.get("version") or "")
    return "", ""


def _read(place, path: str) -> bytes:
    asked = {"files": [[posixpath.join(place.root, path), "script", True]], "seconds": 1.5}
    try:
        told = place.ask("contents", asked)
    except Problem:
        return b""
    return next((b64decode(file["content"]) for file in told["files"] if "content" in file), b"")

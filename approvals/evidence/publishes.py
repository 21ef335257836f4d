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
WITH_VALUE += ("--host", "-k", "--key")
BY_HAND = (
    "The Python package index takes no yank by a call. Its owner can yank the release by hand, on the project's page"
    " there."
)
NO_NAME = "Handrail can't read which package and version this publishes."
NO_REGISTRY = "Handrail can't read which registry this publishes to."
WORDS = "Taken back with Handrail: published by mistake"
PLAIN = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]*")
ADDRESS = re.compile(r"https?://[!-~]{1,500}")
REGISTRY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
REGISTRY = re.compile(r"--(?:@[A-Za-z0-9._~-]+:)?registry|--index")  # options, also of one scope of packages
# Variables that name a registry, where a command sets them.
# pattern: tried at the beginning of each word alone
SETS_REGISTRY = re.compile(
    r"(?i)(?<![\w-])(?:\w{1,60}_registry(?:_default|_server)?|cargo_registries_\w{1,60}_index|rubygems_host)\s*="
)


def is_publish(step: dict) -> bool:
    found = after(step["words"], PROGRAMS)
    verbs = {"twine": ("upload",), "gem": ("push",)}
    return found is not None and any(word in verbs.get(found[0], ("publish",)) for word in found[1][:2])


def way_back(place, step: dict, before: list[dict]) -> tuple[str, str, str]:
    """Return (command, its words, "") for what takes the publish back; ("", "", why not).

    `before`: the sub-commands of the call before it, which may set variables.
    """
    program, words = after(step["words"], PROGRAMS)
    parsed = parse(words, WITH_VALUE)
    if program in PYTHON:
        return "", "", BY_HAND
    if parsed.has("--dry-run", "-n"):
        return "", "", "It publishes nothing."
    if any(SETS_REGISTRY.search(each.get("text", "")) for each in (*before, step)):
        return "", "", NO_REGISTRY
    if program == "gem":
        return _gem(parsed)
    manifest = _manifest(place, step, program, parsed)
    name, version = str(manifest.get("name") or ""), str(manifest.get("version") or "")
    if not PLAIN.fullmatch(name) or not VERSION.fullmatch(version):
        return "", "", NO_NAME
    where = _registry(program, parsed, manifest)
    if where is None:
        return "", "", NO_REGISTRY
    if program == "cargo":
        return f"cargo yank --version {version} {name}{where}", f"yanks {name} {version}", ""
    command = f"npm deprecate {name}@{version} {shlex.quote(WORDS)}{where}"
    return command, f"marks {name}@{version} as deprecated; it stays there", ""


def _registry(program: str, parsed, manifest: dict) -> str | None:
    """Return the options that name where the publish goes, for the command that takes it back; None if not known."""
    found = {name: value for name, value in parsed.options if REGISTRY.fullmatch(name) and value is not None}
    if program != "cargo" or not found:
        of_file = _of_manifest(program, manifest)
        if of_file is None:
            return None
        found = of_file | found
    if not all(map(is_known, found.values())):
        return None
    return "".join(f" {name}{'=' if ':' in name else ' '}{shlex.quote(value)}" for name, value in found.items())


def _of_manifest(program: str, manifest: dict) -> dict[str, str] | None:
    """Return the options for the registries that the package's own file names; None if one can't be read."""
    if program == "cargo":
        named, fits = manifest.get("publish"), REGISTRY_NAME
        if isinstance(named, dict):
            return None  # it is in the file of Cargo's workspace
        # To one alone a publish goes by itself.
        found = {"--registry": named[0]} if isinstance(named, list) and len(named) == 1 else {}
    else:
        config, fits = manifest.get("publishConfig"), ADDRESS
        config = config if isinstance(config, dict) else {}
        found = {f"--{key}": value for key, value in config.items() if value and REGISTRY.fullmatch(f"--{key}")}
    return found if all(isinstance(each, str) and fits.fullmatch(each) for each in found.values()) else None


def _same(parsed, *options: str) -> str | None:
    """Return these options of the publish for the command that takes it back; None if a value is not known yet."""
    found = [(name, value) for name, value in parsed.options if name in options and value is not None]
    if not all(is_known(value) for _, value in found):
        return None
    return "".join(f" {name} {shlex.quote(value)}" for name, value in found)


def _gem(parsed) -> tuple[str, str, str]:
    operands, where = parsed.operands[1:], _same(parsed, "--host", "-k", "--key")
    found = re.fullmatch(r"(?:.*/)?([A-Za-z0-9_-]+)-(\d[0-9A-Za-z.]*)\.gem", operands[0]) if operands else None
    if found is None:
        return "", "", NO_NAME
    if where is None:
        return "", "", NO_REGISTRY
    return f"gem yank {found[1]} -v {found[2]}{where}", f"yanks {found[1]} {found[2]}", ""


def _manifest(place, step: dict, program: str, parsed) -> dict:
    """Return what the package's own file says, {} for what is not known."""
    file = "Cargo.toml" if program == "cargo" else "package.json"
    where = [word for word in parsed.operands if word not in ("publish", "npm")]
    folder = (parsed.values("-C", "--dir") or where or ["."])[-1]
    if parsed.has("-w", "--workspace", "--workspaces", "-r", "--recursive", "--manifest-path", "-p"):
        return {}
    path = beneath(f"{folder}/{file}", step.get("cwd") or "/", place.root) if is_known(folder) else None
    told = _read(place, path) if path else b""
    with suppress(ValueError, AttributeError):
        read = tomllib.loads(told.decode()).get("package", {}) if program == "cargo" else json.loads(told)
        return read if isinstance(read, dict) else {}
    return {}


def _read(place, path: str) -> bytes:
    asked = {"files": [[posixpath.join(place.root, path), "script", True]], "seconds": 1.5}
    try:
        told = place.ask("contents", asked)
    except Problem:
        return b""
    return next((b64decode(file["content"]) for file in told["files"] if "content" in file), b"")

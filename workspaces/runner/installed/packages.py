"""Recognise packages by the names of the files and folders that package managers leave. Nothing is run."""

import json
import re
import tomllib

MAX_LIST_BYTES = 1 << 20
MAX_NAME = 100  # characters that are shown of a name or version

# (what it is, the path of a folder below the home)
# pattern: paths of at most 4,096 bytes
_FOLDERS = [
    ("python", re.compile(r"(?:.*/)?site-packages/(?P<name>[^/]+?)-(?P<version>[^/-]+)\.dist-info")),
    ("gem", re.compile(r"(?:.*/)?gems/(?P<name>[^/]+)-(?P<version>\d[^/-]*)")),
    ("node", re.compile(r"\.nvm/versions/(?P<name>node)/v(?P<version>[^/]+)")),
    ("rust toolchain", re.compile(r"\.rustup/toolchains/(?P<name>[^/]+)")),
    ("python itself", re.compile(r"\.pyenv/versions/(?P<version>[^/]+)")),
    ("mise", re.compile(r"\.local/share/mise/installs/(?P<name>[^/]+)/(?P<version>[^/]+)")),
]
# pattern: as above
_PROGRAM = re.compile(r"(?:(?:.*/)?bin)/(?P<name>[^/]+)")
# pattern: as above
_NPM = re.compile(r"(?:(?!.*node_modules/.*node_modules/).*/)?node_modules/(?P<name>(?:@[^/]+/)?[^/]+)/package\.json")
_CRATES = ".cargo/.crates.toml"
_CRATE = re.compile(r"(?P<name>\S+) (?P<version>\S+)")


def of_folder(path: str) -> dict | None:
    """Return the package that a folder with this path is of."""
    for kind, pattern in _FOLDERS:
        if found := pattern.fullmatch(path):
            return _package(kind, **found.groupdict())
    return None


def of_file(path: str, read) -> list[dict]:
    """Return the packages that a file lists, or that it is a program; `read()` returns its content."""
    if path == _CRATES:
        return _crates(read())
    if found := _NPM.fullmatch(path):
        return [_package("npm", found["name"], _npm_version(read()))]
    found = _PROGRAM.fullmatch(path)
    return [_package("program", found["name"])] if found and path.count("/") <= 2 else []


def _package(kind: str, name: str = "", version: str = "") -> dict:
    return {"kind": kind, "name": name[:MAX_NAME], "version": version[:MAX_NAME]}


def _npm_version(text: bytes) -> str:
    try:
        version = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return version if isinstance(version, str) else ""


def _crates(text: bytes) -> list[dict]:
    try:
        listed = tomllib.loads(text.decode())["v1"]
        found = [_CRATE.match(line) for line in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [_package("crate", one["name"], one["version"]) for one in found if one]

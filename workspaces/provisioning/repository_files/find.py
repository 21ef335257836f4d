"""Find the files of a repository that say how it is set up, and what its dependency files suggest."""

from collections.abc import Callable

from workspaces.provisioning.devcontainer import PLACES
from workspaces.provisioning.repository_files import handrail_toml, others
from workspaces.provisioning.repository_files.suggestion import MAX_BYTES, Suggestion

HANDRAIL = "handrail.toml"
_READERS: list[tuple[str, Callable[[str, bytes], Suggestion]]] = [
    (HANDRAIL, handrail_toml.read),
    *((place, others.read_devcontainer) for place in PLACES),
    (".cursor/environment.json", others.read_cursor),
    (".github/workflows/copilot-setup-steps.yml", others.read_copilot),
    ("conductor.json", others.read_conductor),
]
# (what it is of, the file, [(a lock file that decides, the script)]; the last one without a lock file)
_DEPENDENCIES = [
    ("Python", "requirements.txt", [("", "python3 -m venv .venv\n.venv/bin/pip install -r requirements.txt")]),
    (
        "Python",
        "pyproject.toml",
        [
            ("uv.lock", "uv sync --frozen"),
            ("poetry.lock", "poetry install"),
            ("pdm.lock", "pdm sync"),
            ("", "python3 -m venv .venv\n.venv/bin/pip install -e ."),
        ],
    ),
    (
        "Node.js",
        "package.json",
        [
            ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
            ("yarn.lock", "yarn install --frozen-lockfile"),
            ("bun.lock", "bun install --frozen-lockfile"),
            ("package-lock.json", "npm ci"),
            ("", "npm install"),
        ],
    ),
    ("Go", "go.mod", [("", "go mod download")]),
    ("Rust", "Cargo.toml", [("Cargo.lock", "cargo fetch --locked"), ("", "cargo fetch")]),
]


def find(read: Callable[[str], bytes | None]) -> list[Suggestion]:
    """Return what the files suggest, those that say it themselves first.

    `read(path)` returns at most MAX_BYTES + 1 bytes of a regular file, None if there is none.
    """
    found = []
    for path, reader in _READERS:
        data = read(path)
        if data is not None:
            too_large = Suggestion(path, errors=[f"It has more than {MAX_BYTES // 1024} KB."])
            found.append(too_large if len(data) > MAX_BYTES else reader(path, data))
    for what, path, scripts in _DEPENDENCIES:
        if read(path) is not None:
            lock, script = next((lock, script) for lock, script in scripts if not lock or read(lock) is not None)
            note = [f"{lock} decides the versions."] if lock else []
            found.append(Suggestion(path, what, {"setup": script + "\n"}, note))
    return found

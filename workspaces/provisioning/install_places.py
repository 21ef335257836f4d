"""The folders of a home into which programs are installed. Only these can be kept for other workspaces.

Settings, caches, credentials and agents' own files are elsewhere in a home, and stay where they are.
"""

PLACES = (
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".deno",
    ".gem",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/gem",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".npm-global",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "bin",
    "go/bin",
)
# Files that go with a place: where its tool lists what it installed.
LISTS = {".cargo/bin": (".cargo/.crates.toml", ".cargo/.crates2.json")}


def paths_of(folders) -> list[str]:
    """Return the paths of a home that are kept with these places."""
    return [path for folder in folders for path in (folder, *LISTS.get(folder, ()))]

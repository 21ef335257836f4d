"""Lines in the .git/info/exclude of a connected folder, which keep what `connect` put there out of `git status`."""

from pathlib import Path

from approvals.agents.folder_git import git

MANIFEST = ".handrail/manifest.json"  # written by workspaces.manifests.folder_manifest
GLOB = "*?[\\\n"  # what would not mean itself in a file of patterns


def hide_manifest(real: Path) -> dict:
    """List the manifest, also where the repository is above, unless it is ignored already or committed.

    Return the entries of the connection file that `show_manifest` needs.
    """
    done = git(real, "rev-parse", "--show-prefix", "--git-path", "info/exclude")
    if done.returncode or git(real, "check-ignore", "-q", MANIFEST).returncode == 0:
        return {}
    prefix, path = done.stdout.removesuffix("\n").split("\n", 1)
    is_committed = git(real, "ls-files", "--error-unmatch", MANIFEST).returncode == 0
    if is_committed or any(special in prefix for special in GLOB):
        return {}
    exclude, pattern = real / path, f"/{prefix}{MANIFEST}"
    exclude.parent.mkdir(exist_ok=True)
    with open(exclude, "a", encoding="utf-8") as file:
        file.write(f"{pattern}\n")
    return {"manifest_excluded_in": str(exclude), "manifest_pattern": pattern}


def show_manifest(told: dict):
    """Undo `hide_manifest`, with the entries of the connection file."""
    if exclude := told.get("manifest_excluded_in"):
        drop_line(Path(exclude), told["manifest_pattern"])


def drop_line(file: Path, line: str):
    """Remove this line of a text file, wherever it is."""
    if file.is_file():
        kept = [text for text in file.read_text("utf-8").splitlines(keepends=True) if text.strip() != line]
        file.write_text("".join(kept), "utf-8")

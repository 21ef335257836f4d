"""Compare two manifests, property by property."""

OWN = {"format", "workspace", "snapshot", "parent", "parent_tree", "kind", "label", "at", "cause", "run", "resumed_at"}
OWN |= {"proof", "drift", "memory", "set_up_out_of_date"}  # what identifies a manifest, and what only a resume has


def differences(a: dict, b: dict) -> dict[str, list]:
    """Return {property: [value in a, value in b]} of what both recorded and is not the same.

    Older manifests record less than newer ones. What identifies each, such as its time, is left out.
    """
    return {name: [a[name], b[name]] for name in a if name in b and name not in OWN and a[name] != b[name]}


def files_of(value) -> dict[str, str]:
    """Return {path: state or digest} of `dirty` or `lock_files`, for a comparison file by file."""
    listed = value.get("files", []) if isinstance(value, dict) else value or []
    return {item["path"]: item.get("state") or item.get("sha256") or "" for item in listed}

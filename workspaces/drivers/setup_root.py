"""The environment variables of a setup that runs as root: in a container or a microVM."""

from .base import RunSpec


def variables(spec: RunSpec) -> dict[str, str]:
    """Return the spec's own variables; for setup with who it runs as, and so that git works in the workspace's files.

    They belong to the workspace's user, and git refuses those of others.
    """
    if spec.phase != "setup":
        return dict(spec.env)
    said = spec.env.get("GIT_CONFIG_COUNT", "")
    count = int(said) if said.isdecimal() else 0
    return {
        "USER": "root",
        "LOGNAME": "root",
        **spec.env,
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": "safe.directory",
        f"GIT_CONFIG_VALUE_{count}": "*",
    }

"""Read the policy file of a workspace's repository, for the judge of a call."""

from dashboard.problems import Problem
from workspaces.runner import files

PATH = b".handrail/policy.toml"
MAX_BYTES = 256 << 10


def read(tree) -> dict:
    """Return {"text"}, {"problem": why it can't be read}, or {} if there is none. Symlinks are not followed."""
    try:
        return {"text": files.read(tree, PATH, MAX_BYTES).decode()}
    except UnicodeDecodeError:
        return {"problem": "it is not UTF-8"}
    except Problem as problem:
        return {} if problem.status == 404 else {"problem": problem.detail.rstrip(".")}

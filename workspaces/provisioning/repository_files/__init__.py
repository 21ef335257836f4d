"""Files of a repository that say how it is set up. Untrusted: nothing of them is run unasked."""

from workspaces.provisioning.repository_files.find import HANDRAIL, find
from workspaces.provisioning.repository_files.suggestion import MAX_BYTES, Suggestion

__all__ = ["HANDRAIL", "MAX_BYTES", "Suggestion", "find"]

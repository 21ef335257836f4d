"""Definitions of agents as data: versions, their comparison, and the formats that they come in and leave in."""

from approvals.agent_runs.definitions.versions import compare, export, find, import_document, newest, save

__all__ = ["compare", "export", "find", "import_document", "newest", "save"]

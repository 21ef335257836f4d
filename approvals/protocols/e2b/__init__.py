"""The part of E2B's two APIs that its SDKs need to work in Handrail's workspaces, as a translation of our own verbs.

A sandbox is a workspace, whose key is its id; a template is an environment; a process is a command or a terminal. The
REST API makes, pauses and ends sandboxes (`sandboxes.py`), envd runs processes and reads files in one of them
(`processes.py`, `filesystem.py`, `files.py`). Each function calls what Handrail's own API calls, so that policy,
tenancy, envelopes and events are the same. What needs a person is an error that names the card, or waits for the
decision as long as the client does (`held.py`).
"""

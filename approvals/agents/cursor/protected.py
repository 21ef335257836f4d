"""What is protected of Cursor: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    Cursor : .cursor : MCP; Hooks; Rules
"""
SECRETS = ".config/cursor .cursor/auth.json"
PROGRAMS = "cursor-agent"

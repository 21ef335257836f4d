"""What is protected of Codex: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    Codex : .codex : Config reference
"""
SECRETS = ".codex/auth.json"
PROGRAMS = "codex"

"""What is protected of OpenCode: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    OpenCode : .opencode opencode.json opencode.jsonc .config/opencode : Config; Plugins
"""
SECRETS = "auth.json"
PROGRAMS = "opencode"

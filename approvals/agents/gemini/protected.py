"""What is protected of Gemini CLI: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    Gemini CLI : .gemini : Configuration
"""
SECRETS = ".gemini/oauth_creds.json oauth_creds.json"
PROGRAMS = "gemini"

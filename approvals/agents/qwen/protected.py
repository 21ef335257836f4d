"""What is protected of Qwen Code: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    Qwen Code : .qwen : Settings
"""
SECRETS = ".qwen/oauth_creds.json oauth_creds.json"
PROGRAMS = "qwen"

"""What is protected of Copilot CLI: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    GitHub Copilot : .copilot .github/hooks .github/agents .github/skills : Hooks; Custom agents
    GitHub Copilot : .github/copilot .github/mcp.json : Hooks; Custom agents
"""
SECRETS = ".config/github-copilot"
PROGRAMS = "copilot"

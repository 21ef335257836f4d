"""What is protected of Claude Code: the files that it starts from, its credentials, and its program.

`workspaces/envelope` reads this, also in the init's archive: standard library only, any Python from 3.9.
"""

STARTUP_FILES = """
    Claude Code : .claude .claude-plugin .mcp.json : Settings; Hooks; Plugins; MCP
    Claude Desktop : claude_desktop_config.json : MCP, connect to local servers
"""
SECRETS = ".claude.json"
PROGRAMS = "claude"

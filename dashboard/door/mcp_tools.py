"""The tools of `handrail mcp-server`, which is a client of the verbs of the table: none does what no verb does."""

MCP_TOOLS = {
    "ask_permission": ("POST /actions", "GET /actions/{action_id}", "POST /actions/{action_id}/consume"),
    "list_workspaces": ("GET /workspaces",),
    "read_notes": ("GET /workspaces/{key}/notes",),
    "write_notes": ("PUT /workspaces/{key}/notes",),
    "take_snapshot": ("POST /workspaces/{key}/snapshots",),
    "run_command": ("POST /workspaces/{key}/commands", "GET /commands/{id}", "GET /commands/{id}/output"),
    "search_text": ("GET /commands/{id}/output/search", "GET /workspaces/{key}/search"),
    "query_table": ("POST /commands/{id}/output/query", "POST /workspaces/{key}/query"),
}

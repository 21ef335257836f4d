"""Letta's own schema of agent files: `python letta_schema.py full` prints a file, `check FILE` reads one, or fails."""

import json
import sys
from pathlib import Path

from letta.schemas.agent_file import AgentFileSchema

FULL = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Support",
            "system": "You help.",
            "agent_type": "letta_v1_agent",
            "block_ids": ["block-0"],
            "tool_ids": ["tool-0"],
            "tool_rules": [{"type": "requires_approval", "tool_name": "send"}],
            "llm_config": {"model": "gpt-5", "model_endpoint_type": "openai", "context_window": 64000},
            "tool_exec_environment_variables": {"MAIL_PASSWORD": "hunter2"},
            "messages": [
                {
                    "id": "message-0",
                    "role": "user",
                    "content": [{"type": "text", "text": "hello"}],
                    "agent_id": "agent-0",
                }
            ],
            "in_context_message_ids": ["message-0"],
        }
    ],
    "groups": [],
    "blocks": [{"id": "block-0", "label": "persona", "value": "Kind.", "limit": 5000, "read_only": True}],
    "files": [],
    "sources": [],
    "tools": [
        {
            "id": "tool-0",
            "name": "send",
            "json_schema": {"name": "send", "parameters": {"type": "object", "properties": {}}},
            "source_code": "def send(): pass",
            "tool_type": "custom",
        }
    ],
    "mcp_servers": [
        {"id": "mcp_server-0", "server_type": "sse", "server_name": "mail", "server_url": "https://x.example"}
    ],
    "created_at": "2026-11-01T00:00:00Z",
}

match sys.argv[1]:
    case "full":  # with every field that the schema has
        print(AgentFileSchema.model_validate(FULL).model_dump_json())
    case "check":
        file = AgentFileSchema.model_validate(json.loads(Path(sys.argv[2]).read_text()))
        print(json.dumps([[agent.system for agent in file.agents], [block.label for block in file.blocks]]))

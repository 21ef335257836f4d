"""How `qwen` is started without a terminal."""

from approvals.agents.program import KEY, MODEL, Scripted

SCRIPTED = Scripted(
    ("-p", "{prompt}", "--yolo", "--auth-type", "openai", "-m", MODEL),
    {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL},
    {".qwen/settings.json": {"privacy": {"usageStatisticsEnabled": False}}},
)

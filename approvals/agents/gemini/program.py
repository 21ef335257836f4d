"""How `gemini` is started without a terminal."""

from approvals.agents.program import KEY, MODEL, Scripted

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
}
SCRIPTED = Scripted(
    ("-p", "{prompt}", "--yolo", "-m", MODEL),
    {
        "GOOGLE_GEMINI_BASE_URL": "{url}",
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    {".gemini/settings.json": SETTINGS},
)

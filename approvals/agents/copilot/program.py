"""How `copilot` is started without a terminal."""

from approvals.agents.program import KEY, Scripted

SCRIPTED = Scripted(
    ("-p", "{prompt}", "--allow-all-tools", "--no-color"),
    {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-5.5",
    },
    reads=(".copilot/config.json", ".copilot/settings.json"),
)

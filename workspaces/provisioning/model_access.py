"""Which models the relay gives the agents of an environment: by provider, the key's secret and the models' names."""

import re
from fnmatch import fnmatchcase

from dashboard.problems import invalid

PROVIDERS = ("anthropic", "openai")
SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/*-]{0,99}")
MAX_MODELS = 20  # of one provider
TOOLS = "+tools"  # a word of a line: the provider's own tools (search, fetch, code, MCP) may be used
FIELD = "model_access"


def read(text: str) -> dict:
    """Parse lines `provider SECRET model [model…] [+tools]`. Problem 422 names the invalid line."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) < 3:
            raise invalid(f"Line {number} of the models: write provider, secret and models.", field=FIELD)
        provider, secret, *models = words
        if provider in found:
            raise invalid(f"Line {number} of the models: {provider} appears twice.", field=FIELD)
        found[provider] = {"secret": secret, "models": [each for each in models if each != TOOLS]}
        if TOOLS in models:
            found[provider]["tools"] = True
    return check(found)


def write(access: dict) -> str:
    return "".join(
        " ".join([provider, each["secret"], *each["models"], *([TOOLS] if each.get("tools") else [])]) + "\n"
        for provider, each in access.items()
    )


def check(access: dict) -> dict:
    """Return the access, complete. Problem 422 for an unknown provider, a wrong name, or no model."""
    found = {}
    for provider, each in access.items():
        if provider not in PROVIDERS:
            raise invalid(f"There is no provider {provider[:80]!r}. Known: {', '.join(PROVIDERS)}.", field=FIELD)
        if not isinstance(each, dict) or set(each) - {"secret", "models", "tools"}:
            raise invalid(f"{provider} takes secret, models and tools.", field=FIELD)
        if not SECRET.fullmatch(str(each.get("secret", ""))):
            raise invalid(f"{provider} needs the name of a secret, such as {provider.upper()}_API_KEY.", field=FIELD)
        models = each.get("models")
        if not isinstance(models, list) or not 1 <= len(models) <= MAX_MODELS:
            raise invalid(f"Name 1 to {MAX_MODELS} models of {provider}.", field=FIELD)
        for model in models:
            if not isinstance(model, str) or not MODEL.fullmatch(model):
                raise invalid(f"{str(model)[:80]!r} is not the name of a model, or a pattern with *.", field=FIELD)
        found[provider] = {"secret": each["secret"], "models": models} | ({"tools": True} if each.get("tools") else {})
    return found


def allows(access: dict, provider: str, model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in access.get(provider, {}).get("models", ()))


def first_model(access: dict, provider: str) -> str:
    """Return the provider's first model that is a name and no pattern; "" without one."""
    return next((model for model in access.get(provider, {}).get("models", ()) if "*" not in model), "")

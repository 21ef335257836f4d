#!/bin/sh
# Letta's own schema of agent files, and Agent Spec's own package, into .venv-letta, for tests/approvals/agent_runs/definitions.
# Not all that Letta's package asks for: only what the schema imports. 340 MB.
set -eu
cd "$(dirname "$0")/.."
test -x .venv-letta/bin/python || "${PYTHON:-python3}" -m venv .venv-letta
.venv-letta/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps letta==0.16.8 pyagentspec==26.3.1
.venv-letta/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
    aiohttp anthropic asyncpg cryptography demjson3 docstring_parser fastapi httpx mcp numpy openai \
    opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp opentelemetry-instrumentation-requests \
    opentelemetry-instrumentation-sqlalchemy jsonschema pathvalidate pydantic pydantic_settings pytz 'sqlalchemy[asyncio]' pyyaml
.venv-letta/bin/python -c 'import letta.schemas.agent_file, pyagentspec'

#!/bin/sh
# LangGraph, OpenAI Agents and the SDKs of MCP and ACP into .venv-frameworks, for tests/client/frameworks, tests/client/mcp
# and tests/approvals/acp. Apart from .venv: 180 MB that nothing else needs. Wheels only: the source packages of some do not build.
set -eu
cd "$(dirname "$0")/.."
test -x .venv-frameworks/bin/python || "${PYTHON:-python3}" -m venv .venv-frameworks
.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    -c constraints.txt -c client/constraints.txt \
    agent-client-protocol langchain langgraph langgraph-checkpoint-sqlite mcp openai-agents

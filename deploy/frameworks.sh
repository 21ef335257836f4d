#!/bin/sh
# LangGraph, OpenAI Agents, Claude's Agent SDK, Microsoft Agent Framework, Pydantic AI, AAIS, those of MCP and ACP, those of OpenAI and Anthropic, and E2B's two into .venv-frameworks,
# for tests/client/frameworks, tests/approvals/protocols/e2b, tests/client/mcp, tests/approvals/agents/acp and tests/approvals/agent_runs/model_relay. Apart from .venv: 660 MB that nothing else needs, of which 380 are the Claude Code in its SDK. Wheels only: the source packages of some do not build.
set -eu
cd "$(dirname "$0")/.."
test -x .venv-frameworks/bin/python || "${PYTHON:-python3}" -m venv .venv-frameworks
# Microsoft's framework needs a msgspec below the one that is pinned for the product.
grep -v '^msgspec==' constraints.txt >.venv-frameworks/constraints.txt
.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
    -c .venv-frameworks/constraints.txt -c client/constraints.txt \
    agent-approval-interchange agent-client-protocol agent-framework-core anthropic claude-agent-sdk e2b langchain langgraph langgraph-checkpoint-postgres langgraph-checkpoint-sqlite mcp openai openai-agents 'psycopg[binary]' pydantic-ai-slim
npm install --prefix .venv-frameworks --ignore-scripts --no-audit --no-fund --no-update-notifier --no-save --silent e2b@2.51.0

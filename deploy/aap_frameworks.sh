#!/bin/sh
# CrewAI and Google's ADK, with the client of the Agent Approval Protocol that has adapters for both, into folders of
# .venv-aap-frameworks, for tests/client/frameworks/test_aap_adapters.py. Apart, since no version of the one allows what
# the other needs. 2 GB that nothing else needs, so CI leaves these tests out. Wheels only.
set -eu
cd "$(dirname "$0")/.."
for name in crewai adk; do
    folder=.venv-aap-frameworks/$name
    test -x "$folder/bin/python" || "${PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
        "agentapprovalprotocol[$name]"
done

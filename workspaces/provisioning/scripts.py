"""How scripts of an environment are run, and what the exit status of one says."""

import re
import signal

# A script runs as it is written, and ends at the first command that fails. It can ask for more: `set -u`, pipefail.
UNTIL_A_FAILURE = ("-e", "-c")
# In a sandbox pip would install into the host's Python, which is read-only (PEP 668), or into the home of setup, which
# is deleted. So a setup that calls pip and makes no environment of its own gets one on its PATH, /workspace/.venv.
# A pip before it leaves out --user, which pip refuses in an environment.
PIP = re.compile(r"(?<![\w./-])pip3?(?![\w./-])")
OWN_ENVIRONMENT = re.compile(r"venv|virtualenv|conda|activate|pipx|poetry|break-system-packages")
VENV = r"""if .venv/bin/python -m pip --version >/dev/null 2>&1 ||
  { python3 -m venv .venv && echo '*' > .venv/.gitignore; }; then
  handrail_bin="$(mktemp -d)"
  printf '#!/bin/sh\nfor word; do shift; [ "$word" = --user ] || set -- "$@" "$word"; done\n%s\n' \
    'exec /workspace/.venv/bin/python -m pip "$@"' > "$handrail_bin/pip"
  chmod 755 "$handrail_bin/pip"
  ln -s pip "$handrail_bin/pip3"
  export VIRTUAL_ENV=/workspace/.venv PATH="$handrail_bin:/workspace/.venv/bin:$PATH"
fi
"""
_SHELL = {126: "a file could not be executed", 127: "a program was not found"}
_SIGNALS = {signal.SIGPIPE: ", what it wrote to was closed", signal.SIGKILL: ", as when memory runs out"}


def of_setup(script: str, capabilities) -> str:
    """Return a setup script as it runs with a driver of these capabilities."""
    needs_venv = capabilities.host_system and PIP.search(script) and not OWN_ENVIRONMENT.search(script)
    return VENV + script if needs_venv else script


def shell_words(status: int | None) -> str:
    """Return what an exit status of a shell means beyond a failure, as ": …" after the status, else ""."""
    if status in _SHELL:
        return f": {_SHELL[status]}"
    try:
        number = signal.Signals((status or 0) - 128)
    except ValueError:
        return ""
    return f": a program in it was ended by {number.name}{_SIGNALS.get(number, '')}"

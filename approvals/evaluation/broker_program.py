"""The program that the broker runs for a Bash call."""

DEFAULT_TIMEOUT_S = 3600


def program_of(call: dict) -> tuple[list[str], int]:
    """Return (argv, timeout in seconds)."""
    arguments = call["arguments"]
    timeout_s = -(-arguments["timeout"] // 1000) if "timeout" in arguments else DEFAULT_TIMEOUT_S
    return ["bash", "-c", arguments["command"]], timeout_s

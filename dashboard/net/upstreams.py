"""Read the addresses of model providers from a setting. Imports only the standard library, as the settings use it."""

from urllib.parse import urlsplit


def read_upstreams(text: str) -> dict[str, str]:
    """Parse `provider=https://host/path provider=…` to {provider: address without a slash at its end}. ValueError."""
    found = {}
    for word in text.split():
        provider, given, address = word.partition("=")
        parts = urlsplit(address)
        if not given or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{word!r} is not provider=https://host")
        found[provider] = address.rstrip("/")
    return found

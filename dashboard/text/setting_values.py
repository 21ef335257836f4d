"""Read environment variables. What a variable may not be is refused in one sentence: "NAME must be …, not '…'."."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

HOST = re.compile(r"[A-Za-z0-9_.:\[\]-]+")


def refused(name: str, must_be: str, raw: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} must be {must_be}, not {raw!r}.")


def read_home(file: Path):
    """Set the variables that the environment does not have to those in a file, of lines NAME=VALUE."""
    with suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition("=")
            if value and not name.startswith("#"):
                os.environ.setdefault(name, value)


def given() -> dict[str, str]:
    """Return {variable: value} of those of the environment that are not empty."""
    return {name: value.strip() for name, value in os.environ.items() if value.strip()}


def env(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_int(name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
    """Read a whole number from `least` to `most`."""
    raw = env(name)
    if not raw:
        return default
    # A number of more digits than any of these settings has is not read at all.
    is_number = raw.isascii() and raw.isdecimal() and len(raw) <= 18
    if is_number and int(raw) >= least and (most is None or int(raw) <= most):
        return int(raw)
    raise refused(name, f"a whole number of at least {least}" + (f" and at most {most}" if most else ""), raw)


def env_choice(name: str, choices: tuple[str, ...], default: str) -> str:
    raw = env(name) or default
    for choice in choices:
        if raw.lower() == choice.lower():
            return choice
    raise refused(name, f"{', '.join(choices[:-1])} or {choices[-1]}", raw)


def env_switch(name: str, *, default: bool = False) -> bool:
    return env_choice(name, ("0", "1"), str(int(default))) == "1"


def env_folder(name: str, default: Path) -> Path:
    """Read an absolute path; the folder need not exist."""
    raw = env(name)
    if raw and not Path(raw).is_absolute():
        raise refused(name, "an absolute path", raw)
    return Path(raw) if raw else default


def env_folders(name: str, default: str = "") -> list[Path]:
    raw = env(name, default)
    found = [Path(part) for part in raw.split(":") if part]
    if not all(path.is_absolute() for path in found):
        raise refused(name, "absolute paths with colons between them", raw)
    return found


def env_host(name: str, default: str) -> str:
    raw = env(name, default)
    if raw and not HOST.fullmatch(raw):
        raise refused(name, "a host name or an IP address", raw)
    return raw


def env_hosts(name: str) -> list[str]:
    raw = env(name)
    found = [part.strip().lower() for part in raw.split(",") if part.strip()]
    if not all(HOST.fullmatch(part) for part in found):
        raise refused(name, "host names with commas between them", raw)
    return found


def env_address(name: str, schemes: tuple[str, ...], default: str) -> str:
    """Read a URL of one of the schemes, without a slash at its end; those of `unix` need no host."""
    raw = env(name) or default
    try:
        parts = urlsplit(raw)
        is_whole = parts.scheme in schemes and bool(parts.path if parts.scheme == "unix" else parts.hostname)
        _ = parts.port  # ValueError if it is no number
    except ValueError:
        is_whole = False
    if not is_whole or " " in raw:
        raise refused(name, f"an address that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}", raw)
    return raw.rstrip("/")


def env_authority(name: str) -> str:
    """Read HOST:PORT; "" without one. An IPv6 address stands in brackets."""
    raw = env(name)
    host, _, port = raw.rpartition(":")
    is_whole = HOST.fullmatch(host) and port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= 65_535
    if raw and not is_whole:
        raise refused(name, "a host and a port, as in 10.0.0.5:8443", raw)
    return raw


def env_bucket(name: str) -> str:
    """Read s3://BUCKET or s3://BUCKET/PREFIX, without a slash at its end; "" without one."""
    raw = env(name).rstrip("/")
    if raw and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*", raw):
        raise refused(name, "a bucket and a prefix, as in s3://snapshots/handrail", raw)
    return raw


def env_namespace(name: str) -> str:
    """Read NAMESPACE or NAMESPACE@CONTEXT of a cluster, whose first letter is one here; "" without one."""
    raw = env(name)
    if raw and not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?(@\S{1,200})?", raw):
        raise refused(name, "a namespace, or a namespace and a context, as in agents@production", raw)
    return raw


def env_some(name: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Read words of `choices` with commas between them, in the order of `choices`; all of them without one."""
    asked = {part.strip().lower() for part in env(name).split(",") if part.strip()}
    if not asked <= set(choices):
        raise refused(name, f"some of {', '.join(choices)} with commas between them", env(name))
    return tuple(choice for choice in choices if choice in asked or not asked)


def env_program(name: str) -> str:
    """Read the name or path of a program of this machine; "" without one."""
    raw = env(name)
    if raw and not shutil.which(raw):
        raise refused(name, "the name or path of a program on this machine", raw)
    return raw


def env_read(name: str, must_be: str, read: Callable, *, is_secret: bool = False):
    """Return what `read` makes of the text; a ValueError of it says what is wrong. A secret is not quoted then."""
    raw = env(name)
    try:
        return read(raw)
    except ValueError as error:
        was = "" if is_secret else f", not {raw!r}"
        raise ImproperlyConfigured(f"{name} must be {must_be}{was}: {str(error).rstrip('.')}.") from None

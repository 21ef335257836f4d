"""Answers of code hosts: their words of refusal, and the fields of a pull request, read with care."""

import re

from workspaces.code_hosts.base import Refused

MAX_WORDS = 300  # characters of a host's own words
NOTHING = "nothing that can be read"


def error_text(data) -> str:
    """Return the words of an error that a host answered with, on one line."""
    if not isinstance(data, dict):
        return NOTHING
    words = data.get("message") or data.get("error") or data.get("error_description") or ""
    more = data.get("errors") or ()
    parts = [*_parts(words), *(part for each in (more if isinstance(more, list) else [more]) for part in _parts(each))]
    line = "; ".join(dict.fromkeys(part for part in parts if part))
    return line[:MAX_WORDS].rstrip(".; ") or NOTHING


def _parts(words) -> list[str]:
    """Return the sentences in a message: a text, a list, an object of GitHub's errors, or GitLab's lists by field."""
    if isinstance(words, list):
        return [part for each in words[:20] for part in _parts(each)]
    if not isinstance(words, dict):
        return [one_line(str(words))] if words else []
    if words.get("message"):
        return _parts(words["message"])
    if words.get("code"):
        return [one_line(f"{words.get('field') or words.get('resource') or ''} {words['code']}")]
    return [f"{one_line(str(name))} {part}" for name, each in list(words.items())[:20] for part in _parts(each)]


def one_line(text: str) -> str:
    """Return a host's text on one line, without control and hidden characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in text[:2000]).split())


def text_of(data, *names: str) -> str:
    """Return a text in nested objects of an answer. Raise Refused if the answer has another shape."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    if not isinstance(data, str) or not data:
        raise Refused(f"The code host's answer has no {'.'.join(names)}.")
    return data


def number_of(data, name: str) -> int:
    number = data.get(name) if isinstance(data, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise Refused(f"The code host's answer has no {name}.")
    return number


def web_address(url: str) -> str:
    """Return the address of a pull request for people. Raise Refused for one that is no web address."""
    if not re.fullmatch(r"https?://[^\s\"'<>\\]{1,500}", url) or not url.isprintable():
        raise Refused("The code host's answer has no usable address of the pull request.")
    return url


def is_of_a_fork(data: dict) -> bool:
    """Return whether a pull request, as GitHub and Gitea describe it, comes from another repository than it goes to."""
    head, base = ((data.get(side) or {}).get("repo", {}) for side in ("head", "base"))
    return head is None or head.get("full_name") != (base or {}).get("full_name")  # None: the fork was deleted

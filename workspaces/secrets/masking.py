"""Mask a text that an agent or a person wrote, before it is kept: values of secrets, and what looks like one.

Whatever keeps such a text calls this. The bytes of a call are kept as they are, since a person approves exactly them.
"""

import re

from dashboard import json_text
from dashboard.keys import redaction
from dashboard.keys.secret_forms import encoded_forms
from workspaces import secrets

# What looks like a key or a password, of which people paste some: replaced by [secret].
KEYS = re.compile(
    r"\b(?:(?:sk|rk|pk|whsec|glpat)[-_]|gh[oprsu]_|github_pat_|xox[a-z]-|AKIA|eyJ|ya29\.)[-_.A-Za-z0-9]{8,}"
    r"|(?<=-----BEGIN )[A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)",
    re.DOTALL,
)
NAMED = re.compile(r"(?i)\b((?:pass(?:word|wd|phrase)|secret|token|api[_-]?key)\w*\s*[:=]\s*)(?!\[secret\b)[^\s,;]{4,}")
# A name and password in a URL. Titles go to the event log, from which nothing can be removed.
CREDENTIALS = re.compile(r"//[^/\s@]+@")
GUESSED = "what looks like a key"  # in the names of what was taken out


def without_credentials(text: str) -> str:
    """Mask credentials in addresses."""
    return CREDENTIALS.sub("//…@", text)


def without_keys(text: str) -> str:
    """Return the text without what looks like a key, a password or the credentials of an address."""
    return NAMED.sub(r"\1[secret]", KEYS.sub("[secret]", without_credentials(redaction.clean(text))))


def masked(text: str, *workspaces) -> str:
    """Return the text without the secret values of these workspaces (None: of none), and what looks like one."""
    for workspace in workspaces if text else ():
        text = secrets.without_values(workspace, text) if workspace is not None else text
    return without_keys(text)


class Masker:
    """Mask many texts about one workspace: its secrets are read once, when this is made."""

    def __init__(self, workspace):
        handed = secrets.handed_to(workspace) if workspace else []
        self.forms = [
            (form.decode("utf-8", "surrogateescape"), f"[secret {name}]")
            for name, value in handed
            for form in encoded_forms(value.encode())
        ]

    def stored(self, content) -> str:
        """Return a text, or the JSON of anything else, as it is stored."""
        if isinstance(content, str):
            return self._text(content)
        return json_text.dumps(self._tree(content), ensure_ascii=False, indent=1)

    def _tree(self, found):
        # Each text for itself: in JSON a value with a quote or a line break is written in another way.
        if isinstance(found, str):
            return self._text(found)
        if isinstance(found, dict):
            return {self._text(str(name)): self._tree(value) for name, value in found.items()}
        if isinstance(found, list | tuple):
            return [self._tree(value) for value in found]
        return found

    def _text(self, text: str) -> str:
        for form, words in self.forms:
            text = text.replace(form, words)
        # PostgreSQL stores no NUL; no database stores half of a surrogate pair.
        return without_keys(text).replace("\0", "␀").encode("utf-8", "backslashreplace").decode()

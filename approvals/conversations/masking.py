"""Texts of conversations as they are stored: without secret values, and as text that every database takes."""

import json

from approvals.prompts import masked
from dashboard.keys.secret_forms import encoded_forms
from workspaces import secrets


class Masker:
    """Masks texts of one session. It reads the secrets that the workspace was given once, when it is made."""

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
        return json.dumps(self._tree(content), ensure_ascii=False, indent=1)

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
        return masked(text, []).replace("\0", "␀").encode("utf-8", "backslashreplace").decode()

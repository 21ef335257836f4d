"""Texts for people with named parts, which a page may say in another language than the record."""

from dataclasses import dataclass


def gettext_noop(text):
    """Mark a text for translators. The engine itself knows no catalogue: its records are English."""
    return text


@dataclass(frozen=True)
class Phrase:
    """An English template, which is the msgid of its translations, and its parts by name.

    A part is a text, which stays as it is, a Phrase, or a tuple of both whose members stand one behind another.
    """

    template: str
    parts: tuple = ()  # of (name, part)

    @classmethod
    def of(cls, template, **parts):
        return cls(template, tuple(parts.items()))

    def said(self, translate=gettext_noop):
        """Return the text; `translate` gets each template and returns it in the reader's language."""
        return translate(self.template).format(**{name: _said(part, translate) for name, part in self.parts}).strip()

    def __str__(self):
        return self.said()

    def templates(self):
        """Yield the msgid of this phrase and of each one in it."""
        yield self.template
        for _, part in self.parts:
            for each in part if isinstance(part, tuple) else (part,):
                if isinstance(each, Phrase):
                    yield from each.templates()

    def as_json(self):
        """Return the phrase as {"text": template, "parts": {name: text, phrase or list of them}}."""
        return {"text": self.template, "parts": {name: _as_json(part) for name, part in self.parts}}


def _said(part, translate):
    if isinstance(part, tuple):
        return " ".join(filter(None, (_said(each, translate) for each in part)))
    return part.said(translate) if isinstance(part, Phrase) else part


def _as_json(part):
    if isinstance(part, tuple):
        return [_as_json(each) for each in part]
    return part.as_json() if isinstance(part, Phrase) else part

"""Programs in no table that change the files which their words name: what of that an envelope refuses."""

import re

from ..shell_words import Word, names

IN_PLACE = re.compile(r"-[A-Za-z0-9]*i(?:\.\S*)?|-i\S*|--in-?place(?:=.*)?|-w|--write|--fix")
EDITORS = names("ed red ex vi vim nvim nano emacs sponge patch sd rpl dos2unix unix2dos mac2unix crudini rename")
VALUED = {"-e", "-E", "-c", "-S", "-I", "-M", "-r", "-l", "-f"}  # options whose value is program text or a library
SUFFIX = re.compile(r"-[A-Za-z0-9]*i(\.[\w.~-]+)")


def edited_in_place(name, words, judge):
    """Return the effects on files of a program that rewrites what it is given; those that ask alone.

    Others run in an envelope, which would leave protected files as they are while the program may not say so.
    """
    texts = [word.text for word in words]
    if name not in EDITORS and not any(IN_PLACE.fullmatch(text) for text in texts):
        return []
    suffixes = ["", *(match[1] for text in texts if (match := SUFFIX.fullmatch(text)))]
    found = []
    for before, word in zip(["", *texts], words, strict=False):
        is_value = before in VALUED or re.fullmatch(r"-[A-Za-z0-9]*[eE]", before)
        if word.text.startswith(("-", "+")) or is_value or (not word.literal and not word.glob) or word.opaque:
            continue
        for suffix in suffixes:
            found += judge.writes(Word(word.text + suffix, glob=word.glob))
    return [effect for effect in found if effect.place is not None and effect.tier not in ("low", "medium")]

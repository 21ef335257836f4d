"""The text that a program is given to carry out: in its words, on its standard input, or in a file of the workspace."""

import itertools

from ..shell_words import OPAQUE, Word
from .clients import STATEMENTS

FILE_FLAGS = ("-f", "--file", "--queries-file", "-i", "--input-file", "-r", "--script")


def statements(texts):
    """Return the statements among a program's words, by the options that take one."""
    found = [value for flag, value in itertools.pairwise(texts) if flag in STATEMENTS]
    found += [text.partition("=")[2] for text in texts if text.partition("=")[0] in STATEMENTS and "=" in text]
    return found + [text[2:] for text in texts if text[:2] in ("-c", "-e") and " " in text]


def given(texts, simple, judge):
    """Return the text that a program reads from its input or from a file, as far as it is known."""
    found = []
    for redirect in simple.redirects:
        word = redirect.words[0] if redirect.words else None
        if word and redirect.op in ("<<", "<<-", "<<<"):
            found.append(word.text)
        elif word and redirect.op == "<":
            found.append(text_of(word.text, judge))
    found += [text_of(name, judge) for name in files(texts)]
    if not found and simple.fed_by is not None and simple.fed_by.words:
        found.append(_printed(simple.fed_by, judge))
    return ";".join(filter(None, found))


def files(texts):
    """Return the names of the files that a program reads its statements from, by its options."""
    named = [value for flag, value in itertools.pairwise(texts) if flag in FILE_FLAGS]
    return named + [text.partition("=")[2] for text in texts if text.partition("=")[0] in FILE_FLAGS and "=" in text]


def files_read(texts, simple):
    """Return the names of all files that a program's statements come from, its input and what is piped to it too."""
    named = files(texts) + [each.words[0].text for each in simple.redirects if each.op == "<" and each.words]
    feeding = simple.fed_by.words if simple.fed_by is not None and not named else []
    if feeding and feeding[0].text in ("cat", "zcat", "gunzip", "bzcat", "xzcat"):
        named += [word.text for word in feeding[1:] if not word.text.startswith("-")]
    return [name for name in named if OPAQUE not in name]


def _printed(feeding, judge):
    """Return what a command prints for another one: the words that it is given, or the text that it passes on."""
    words = [word.text for word in feeding.words]
    if words[0] in ("echo", "printf"):
        return " ".join(text for text in words[1:] if not text.startswith("-")).replace("\\n", "\n")
    if words[0] not in ("cat", "tee", "sed", "envsubst"):
        return ""
    named = [text for text in words[1:] if not text.startswith("-")] if words[0] == "cat" else []
    return ";".join(filter(None, (text_of(name, judge) for name in named))) or given([], feeding, judge)


def text_of(path, judge):
    """Return the text of a file of the workspace, or "" if it is not known."""
    places = judge.places(Word(path))
    return next((text for place in places if (text := judge.world.texts.get(place.lexical)) and place.inside), "")

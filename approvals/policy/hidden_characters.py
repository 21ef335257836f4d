"""Characters that a reader does not see, or mistakes for others."""

import re
import unicodedata

# A flag such as Scotland's is a black flag, tag letters and a cancel tag: the only legitimate use of tag characters.
TAGGED_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
EMOJI_JOIN = re.compile("(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2600-\u27bf\U0001f000-\U0001faff])")
EMOJI_STYLE = re.compile("(?<=[#*0-9\u00a9\u00ae\u2000-\u2bff\u3000-\u32ff\U0001f000-\U0001faff])[\ufe0e\ufe0f]")


def hidden_in(text, *, prose=False):
    """Return the first hidden character of `text` as "U+202E", or None.

    `prose`: file content, where right-to-left marks, joiners and no-break spaces are ordinary writing.
    """
    if text.isascii() and text.isprintable():
        return None
    text = EMOJI_STYLE.sub("", EMOJI_JOIN.sub("", TAGGED_FLAG.sub("", text)))
    # Each distinct character once, in order of first occurrence.
    for char in dict.fromkeys(text):
        if _hidden(char, prose):
            return f"U+{ord(char):04X}"
    return None


def _hidden(char, prose):
    if char in "\n\t":
        return False
    if prose and char in "\r\f\u200e\u200f\u061c\u200c\u200d\ufeff\u00a0\u00ad\u2028\u2029\u200b":
        return False
    category = unicodedata.category(char)
    if category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return True
    if category == "Zs":
        return char != " " and not prose
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return not prose
    # Letters without a glyph: Hangul fillers and Mongolian vowel separators among them.
    return char in "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5" and not prose

"""Programs that search the files of a folder: which of them they open, and so whether secrets may be shown.

What reads a folder opens the secrets in it, unless a line here says what it leaves out.
"""

from dataclasses import dataclass

from ..paths import fits_secret
from ..shell_words import Word, names


@dataclass(frozen=True)
class Search:
    """The options that matter to which files a search opens.

    `asks`: without one of them it reads no folder by itself. `shows`: with one of them it opens hidden files. Empty:
    it always does. `only` limit it to names of a pattern, `types` to a language; with `lists` it only lists names.
    """

    asks: frozenset = frozenset()
    shows: frozenset = frozenset()
    only: frozenset = frozenset()
    types: frozenset = frozenset()
    lists: frozenset = frozenset()

    def reads_folder(self, texts):
        return not self.asks or _given(texts, self.asks)

    def hides(self, texts):
        """Return True if hidden files stay closed."""
        return bool(self.shows) and not _given(texts, self.shows)

    def opens(self, texts):
        """Return False if no file with the name of a secret is opened."""
        patterns = list(_values(texts, self.only))
        kinds = list(_values(texts, self.types))
        if _given(texts, self.lists):
            return False
        chosen = [not fits_secret(pattern.rpartition("/")[2]) for pattern in patterns if not pattern.startswith("!")]
        chosen += [kind in TYPES for kind in kinds]
        return not (chosen and all(chosen))


# Languages of which no file has the name of a secret.
TYPES = names(
    """
    py python js ts tsx jsx typescript rust go java c cpp cc h hpp csharp cs ruby rb php swift kotlin scala lua perl
    haskell elixir erlang clojure dart zig nim ocaml r julia css scss sass less html vue svelte md markdown rst tex
    sql proto graphql cmake make docker
    """
)
GREP = Search(asks=names("r R d --recursive --dereference-recursive"), only=names("--include"))
HIDING = names("u . U --hidden --no-ignore --no-ignore-vcs --unrestricted")
SEARCHES = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "zstdgrep"), GREP),
    "rg": Search(
        shows=HIDING, only=names("-g --glob --iglob"), types=names("-t --type"), lists=names("--files --type-list")
    ),
    "ag": Search(shows=HIDING, only=names("-G --file-search-regex")),
    "ack": Search(),
    "git grep": Search(),
}


def _given(texts, options):
    """Return True if one of the options is among the words, also as a letter of a bundle."""
    letters = {option for option in options if len(option) == 1}
    return any(
        text.partition("=")[0] in options or (text[:1] == "-" != text[1:2] and letters & set(text[1:]))
        for text in texts
        if text.startswith("-")
    )


def _values(texts, options):
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        if flag in options and equals:
            yield value
        elif text in options and at + 1 < len(texts):
            yield texts[at + 1]
        elif short := next((o for o in options if len(o) == 2 and text.startswith(o) and len(text) > 2), ""):
            yield text.removeprefix(short)


def set_up(name, words, judge):
    """Set what a program with these words opens in a folder."""
    search, texts = SEARCHES.get(name), [word.text for word in words]
    if search:
        judge.opens, judge.hides = search.opens(texts), search.hides(texts)


def of_current_folder(name, words, simple, judge):
    """Return the effects of a search that names no folder: those of the current one, if it reads that."""
    search, texts = SEARCHES[name], [word.text for word in words]
    is_fed = simple.fed_by is not None or any(redirect.op == "<" for redirect in simple.redirects)
    if not search.reads_folder(texts) or (is_fed and not search.asks and name != "git grep"):
        return []
    return judge.reads(Word("."), folder=judge.opens or judge.follows)


def of_pathspecs(words, simple, judge):
    """Return the effects of `git grep`, whose words behind the pattern are revisions, folders and patterns of names."""
    texts = [word.text for word in words]
    if "--cached" in texts:
        return []
    set_up("git grep", words, judge)
    behind = words[texts.index("--") + 1 :] if "--" in texts else _behind_pattern(words)
    found = [
        judge.reads(word, folder=True)
        for word in behind
        if not (word.literal and "*" in word.text and not fits_secret(word.text.rpartition("/")[2]))
    ]
    if not behind:
        found = [of_current_folder("git grep", words, simple, judge)]
    return [effect for effects in found for effect in effects if effect.tier != "low"]


def _behind_pattern(words):
    plain, skip = [], False
    for word in words:
        if not skip and not word.text.startswith("-"):
            plain.append(word)
        skip = word.text in ("-e", "-f", "-A", "-B", "-C", "-m", "--max-count", "--max-depth", "--threads")
    return plain if any(word.text == "-e" for word in words) else plain[1:]

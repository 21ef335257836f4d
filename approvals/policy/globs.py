"""Match wildcards without backtracking, in time that grows with the text and not with the ways to match it."""

import re

from .step_budget import spend

STAR, QUESTION, ANY, FOLDERS = "star", "question", "any", "folders"
WIDE = (STAR, ANY, FOLDERS)


class Glob:
    """A text in which each `mark` matches any characters, or none."""

    def __init__(self, pattern, mark="*"):
        self.first, *self.rest = pattern.split(mark)
        self.shortest = len(self.first) + sum(map(len, self.rest))

    def fits(self, text):
        """Return True if the whole text matches. The leftmost match of each part is always as good as a later one."""
        spend(3 + len(text) // 64)
        if not self.rest:
            return text == self.first
        last = self.rest[-1]
        if len(text) < self.shortest or not text.startswith(self.first) or not text.endswith(last):
            return False
        at, end = len(self.first), len(text) - len(last)
        for part in self.rest[:-1]:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


class PathGlob:
    """A path pattern as in .gitignore: `*` and `?` stay within a name, `**` crosses folders."""

    def __init__(self, base, spec, *, caseless=False):
        self.fold = fold_letters if caseless else str
        self.tokens = [*self.fold(base), *_tokens(self.fold(spec))]
        wide = [i for i, token in enumerate(self.tokens) if len(token) > 1]
        self.head = "".join(self.tokens[: wide[0]]) if wide else "".join(self.tokens)
        self.tail = "".join(self.tokens[wide[-1] + 1 :]) if wide else ""
        self.exact = not wide
        self.masks = None

    def fits(self, path):
        """Return True if the whole path matches."""
        spend(3 + len(path) // 64)
        path = self.fold(path)
        if self.exact or not path.startswith(self.head) or not path.endswith(self.tail):
            return self.exact and path == self.head
        spend(len(path))
        return self._run(path)

    def _run(self, path):
        """Simulate all partial matches at once: bit i of `now` is set if the first i tokens match the text so far."""
        if self.masks is None:
            self.masks = _masks(self.tokens)
        letters, question, star, anything, folders, skip = self.masks
        now = _skipped(1 << len(self.head), skip)
        for char in path[len(self.head) :]:
            moved = now & letters.get(char, 0)
            stays = now & (anything | folders)
            if char == "/":
                # `**/` can end after any slash; until then it consumes every character.
                moved |= now & folders
            else:
                moved |= now & question
                stays |= now & star
            now = _skipped((moved << 1) | (stays & ~folders), skip) | (stays & folders)
            if not now:
                return False
        return bool(now >> len(self.tokens) & 1)


def _skipped(states, skip):
    """Add the states after wildcards that match nothing."""
    while (more := states | ((states & skip) << 1)) != states:
        states = more
    return states


def _masks(tokens):
    """Return for each kind of token the set of its positions, as bits."""
    letters, kinds = {}, dict.fromkeys((QUESTION, STAR, ANY, FOLDERS), 0)
    for index, token in enumerate(tokens):
        if len(token) == 1:
            letters[token] = letters.get(token, 0) | 1 << index
        else:
            kinds[token] |= 1 << index
    skip = kinds[STAR] | kinds[ANY] | kinds[FOLDERS]
    return letters, kinds[QUESTION], kinds[STAR], kinds[ANY], kinds[FOLDERS], skip


def _tokens(spec):
    out, index = [], 0
    while index < len(spec):
        if spec.startswith("**/", index):
            token, width = FOLDERS, 3
        elif spec.startswith("**", index):
            token, width = ANY, 2
        else:
            token, width = {"*": STAR, "?": QUESTION}.get(spec[index], spec[index]), 1
        if not (out and token in WIDE and out[-1] == token):
            out.append(token)
        index += width
    return out


def fold_letters(text):
    """Return the text in lower case with the same number of characters."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.casefold()) == 1 else char for char in text)


def shell_fits(pattern, name):
    """Return True if a shell wildcard (`*`, `?`, `[…]`) matches a short name."""
    reached, index = 1, 0
    everywhere = (1 << len(name) + 1) - 1
    while index < len(pattern) and reached:
        spend(1)
        char, index = pattern[index], index + 1
        if char == "*":
            # Every position after the first one reached is reachable too.
            reached = everywhere & ~((reached & -reached) - 1)
            continue
        chosen = None
        if char == "[":
            chosen, index = _bracket(pattern, index)
        fits = _letters(chosen or char, name) if char != "?" else everywhere
        reached = (reached & fits) << 1 & everywhere
    return bool(reached >> len(name) & 1)


def globs_meet(one, other):
    """Return True if some name fits both wildcards; a bracket counts as any letter."""
    one, other = (re.sub(r"\[[^\]]+\]", "?", each) for each in (one, other))
    spend(1 + len(one) * len(other) // 4)
    reached = [True] + [False] * len(other)
    for place, sign in enumerate(other):
        reached[place + 1] = reached[place] and sign == "*"
    for char in one:
        now = [reached[0] and char == "*"]
        for place, sign in enumerate(other):
            if char == "*":
                now.append(reached[place + 1] or now[place])
            elif sign == "*":
                now.append(now[place] or reached[place] or reached[place + 1])
            else:
                now.append(reached[place] and (char == sign or "?" in (char, sign)))
        reached = now
    return reached[-1]


def _letters(chosen, name):
    """Return the positions in `name` that match: `chosen` is a letter or (negated, [(low, high)…])."""
    found = 0
    for place, letter in enumerate(name):
        if isinstance(chosen, str):
            fits = letter == chosen
        else:
            turned, ranges = chosen
            fits = turned != any(low <= letter <= high for low, high in ranges)
        found |= fits << place
    return found


def _bracket(pattern, index):
    """Parse `[…]` whose first letter is at `index`: ((negated, ranges), index after it), or (None, index)."""
    start = index + (pattern[index : index + 1] in ("!", "^"))
    end, classes = _bracket_end(pattern, start)
    if classes and end >= 0:
        return (True, []), end + 1  # a class such as [:alpha:] may hold any letter
    if end < 0 or end - start > 256:
        return None, index
    inside, ranges, at = pattern[start:end], [], 0
    while at < len(inside):
        if at + 2 < len(inside) and inside[at + 1] == "-":
            ranges.append((inside[at], inside[at + 2]))
            at += 3
        else:
            ranges.append((inside[at], inside[at]))
            at += 1
    spend(len(ranges))
    return (start > index, ranges), end + 1


def _bracket_end(pattern, start):
    """Return the index of the `]` that ends a bracket, or -1, and whether it holds [:classes:], [=…=] or [.….]."""
    at, classes = start, False
    while at < len(pattern) and at - start <= 256:
        spend(1)
        if pattern[at] == "[" and pattern[at + 1 : at + 2] in (":", "=", "."):
            close = pattern.find(pattern[at + 1] + "]", at + 2)
            if close >= 0:
                at, classes = close + 2, True
                continue
        if pattern[at] == "]" and at > start:
            return at, classes
        at += 1
    return -1, classes

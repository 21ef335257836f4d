"""The arguments of a call as its card shows them: short ones, texts, structures, and the agent's own explanation."""

from approvals.pages.structures import MANY_FACTS, Line, Structure, is_structure, lines_of, structure_of

# Arguments with an agent's explanation; they are shown apart from what would run.
EXPLANATION_ARGUMENTS = ("description",)
# Arguments that the diff shows completely, if there is one.
SHOWN_BY_DIFF = ("content", "old_string", "new_string")
MAX_FACT = 120  # characters of a value shown beside its name; longer values are shown as texts
MAX_WORDS = 120  # characters of an agent's explanation that stand on its line; the rest opens
SHORT_WORDS = 34  # of an explanation that the line shows whole on a phone


class ArgumentsPart:
    """The arguments on a card, which has `action`, `arguments`, `command` and `is_shown_by_diff`."""

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Arguments with long or multi-line text: [(name, text)]."""
        return [(n, v) for n, v in self._others() if isinstance(v, str) and (len(v) > MAX_FACT or "\n" in v)]

    @property
    def structures(self) -> list[Structure]:
        """Lists and objects that are too large for one line, and short arguments if there are many of them."""
        many = [structure_of(self.action.tool, dict(self._short()))] if len(self._short()) > MANY_FACTS else []
        return many + [structure_of(name, value) for name, value in self._others() if is_structure(value)]

    @property
    def facts(self) -> list[Line]:
        """The other arguments; none if `structures` has them."""
        short = self._short() if len(self._short()) <= MANY_FACTS else []
        return [line for name, value in short for line in lines_of(name, value)]

    def _short(self) -> list[tuple]:
        return [
            (name, value)
            for name, value in self._others()
            if not is_structure(value) and not (isinstance(value, str) and (len(value) > MAX_FACT or "\n" in value))
        ]

    @property
    def shown_elsewhere(self) -> list[str]:
        """The arguments that are not among those of the call: the agent's explanation, and what a diff shows."""
        if self.command is not None:
            return [name for name in EXPLANATION_ARGUMENTS if name in self.arguments]
        return [name for name in SHOWN_BY_DIFF if name in self.arguments] if self.is_shown_by_diff else []

    def _others(self):
        left_out = [*self.shown_elsewhere, *(["command"] if self.command is not None else [])]
        return [(name, value) for name, value in self.arguments.items() if name not in left_out]

    @property
    def explanations(self) -> list[str]:
        """The agent's explanations, each text once."""
        spoken = [
            self.action.reasoning,
            *(self.arguments.get(name) for name in EXPLANATION_ARGUMENTS if self.command is not None),
        ]
        return list(dict.fromkeys(text for text in spoken if isinstance(text, str) and text))

    @property
    def words_line(self) -> str:
        """The beginning of the agent's explanation, for one line; "" if it gave none."""
        first = self.explanations[0].strip() if self.explanations else ""
        line = first.partition("\n")[0]
        return line if len(line) <= MAX_WORDS else f"{line[:MAX_WORDS]}…"

    @property
    def has_more_words(self) -> bool:
        """Whether the agent explained more than `words_line` shows beside its label."""
        return len(self.explanations) > 1 or any(
            len(text.strip()) > SHORT_WORDS or "\n" in text.strip() for text in self.explanations
        )

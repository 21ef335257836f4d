"""What one file of a repository suggests."""

from dataclasses import dataclass, field

MAX_BYTES = 64 << 10  # of a file that is read
MAX_SCRIPT = 20_000  # characters of a script
MAX_NOTES = 50


@dataclass
class Suggestion:
    """`fields` are columns of an environment (setup, checks, …) for its form, where a person may confirm them.

    `notes`: what the file says besides, and what becomes of it. `errors`: why it, or a part of it, can't be read.
    """

    path: str
    what: str = ""
    fields: dict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    environment: str = ""  # handrail.toml: the name of the environment that it is for
    policy: str = ""  # handrail.toml: the path of a policy in the repository

    def as_json(self) -> dict:
        names = ("path", "what", "fields", "environment", "policy")
        told = {name: getattr(self, name) for name in names}
        return told | {"notes": self.notes[:MAX_NOTES], "errors": self.errors[:MAX_NOTES]}

    def take_script(self, name: str, text: str):
        """Take a script, unless it is too long or has NUL."""
        if "\0" in text or len(text) > MAX_SCRIPT:
            self.errors.append(f"{name}: a script has at most {MAX_SCRIPT:,} characters and no NUL.")
        elif text.strip():
            self.fields[name] = text if text.endswith("\n") else text + "\n"

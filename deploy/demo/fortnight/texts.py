"""The words of the fortnight's files, prompts and outputs."""

from random import Random

PROMPTS = [
    "Add {words} to {package}, with tests. Ask me before you change public names.",
    "We need {words} this week. Keep it small and tested.",
    "Look at {words} in {package}: what is missing? Do it, and note it in the changes.",
    "Please finish {words}; the customer waits for it.",
]
SETTINGS = 'CURRENCY = "EUR"\nTIMEOUT_SECONDS = 10\nRETRIES = 3\n'
CI = "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: python -m pytest -q\n"
NOUNS = ["amount", "customer", "order", "line", "total", "price", "count", "limit", "reason", "moment"]


def readme(key: str, description: str) -> str:
    return f"# {key}\n\n{description}.\n\nRun the tests with `python -m pytest -q`.\n"


def pyproject(package: str) -> str:
    return f'[project]\nname = "{package}"\nversion = "1.4.0"\nrequires-python = ">=3.11"\n'


def module_of(feature: str, random: Random) -> str:
    """Return a module of some 40 to 90 lines."""
    name = feature.title().replace("_", "")
    lines = [f'"""{feature.replace("_", " ").capitalize()}."""', "", "from dataclasses import dataclass", "", ""]
    lines += ["@dataclass(frozen=True)", f"class {name}:"]
    lines += [f"    {noun}: int = 0" for noun in random.sample(NOUNS, 4)]
    for noun in random.sample(NOUNS, random.randint(4, 8)):
        least = random.randint(1, 9)
        lines += ["", "", f"def {feature}_{noun}(values):", f'    """Return the {noun} of each value that counts."""']
        lines += ["    found = []", "    for value in values:", f"        if value >= {least}:"]
        lines += [f"            found.append(value * {random.randint(2, 19)})", "    return found"]
    return "\n".join(lines) + "\n"


def second_part(feature: str, turn: int, random: Random) -> str:
    """Return a function to add to a module; two agents with the same task write different ones."""
    noun, least = random.choice(NOUNS), random.randint(1, 999)
    return (
        f"\n\ndef {feature}_summary_{turn}({noun}):\n    counted = [value for value in {noun} if value >= {least}]\n"
        "    return {'count': len(counted), 'total': sum(counted)}\n"
    )


def mend(feature: str) -> str:
    return f"\n\ndef rounded_{feature}(cents):\n    return round(cents / 100, 2)\n"


def test_of(feature: str) -> str:
    return (
        f"def test_{feature}_is_empty_without_values():\n    assert [] == []\n\n\n"
        f"def test_{feature}_counts_each_value_once():\n    assert sum([1, 2, 3]) == 6\n"
    )


def notes(before: str, feature: str, package: str, *, fails: bool) -> str:
    """Return what an agent keeps for the next run of its workspace: its notes, with this task added."""
    head = before or f"# Notes\n\nWhat the next run of this workspace should know about `{package}`.\n"
    learned = "Its rounding was wrong at first: round once, at the end." if fails else "The tests passed at once."
    return head + f"\n## {feature.replace('_', ' ').capitalize()}\n\n- In `src/{package}/{feature}.py`.\n- {learned}\n"


def pytest_output(path: str, feature: str, *, fails: bool) -> str:
    if not fails:
        return "..                                                       [100%]\n2 passed in 0.12s\n"
    return (
        f"F.                                                       [100%]\n{'=' * 20} FAILURES {'=' * 20}\n"
        f"{'_' * 8} test_{feature}_rounds_half_up {'_' * 8}\nE   assert 10.004 == 10.01\n"
        f"{path}:7: AssertionError\nFAILED {path}::test_{feature}_rounds_half_up\n1 failed, 1 passed in 0.15s\n"
    )


def terminal(key: str, feature: str) -> bytes:
    return (
        f"ruth@{key}:/workspace$ git log --oneline | head -n 3\r\n"
        f"\x1b[33m4f2a91c\x1b[m Add {feature}\r\n\x1b[33m91be002\x1b[m Tidy settings\r\n"
        f"ruth@{key}:/workspace$ grep -rn {feature} src | wc -l\r\n17\r\nruth@{key}:/workspace$ exit\r\n"
    ).encode()

"""What happens in the fortnight: places, people, agents, and the tasks that agents work on. Plain data, no Django."""

from dataclasses import dataclass, field, replace
from random import Random

from deploy.demo.fortnight import texts


@dataclass(frozen=True)
class Place:
    """A workspace of the story: its repository, its agent, and the package that the agent works in."""

    key: str
    agent: str
    repository: str
    description: str
    package: str
    features: tuple
    labels: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One call of an agent: what it does to the files ({path: content, None deletes}) and what it prints.

    `answer` is what a person says if the policy asks: approve, deny with a comment, or ask a question first.
    """

    tool: str
    arguments: dict
    says: str = ""
    files: dict = field(default_factory=dict)
    prints: str = ""
    exit_status: int = 0
    answer: tuple = ("approve", "")
    blocked: tuple = ()


@dataclass(frozen=True)
class Task:
    """What a person asks an agent, the steps that follow, and whether the check passes at the end."""

    prompt: str
    steps: list
    passes: bool


@dataclass(frozen=True)
class Lesson:
    """What an agent proposes for the notes of its repository after a task, and what a person decides (else "")."""

    key: str
    turn: int
    text: str
    answer: str
    person: str = "mia"
    days: int | None = None


PEOPLE = {"mia": "lead", "ben": "reviewer", "ruth": "lead", "tom": "viewer"}
AGENTS = {"claude-mia": "mia", "codex-ben": "ben", "claude-ruth": "ruth", "docs-agent": ""}
SHOP, PAY = "https://git.example.org/acme/web-shop.git", "https://git.example.org/acme/payments.git"
DOCS, INFRA = "https://git.example.org/acme/handbook.git", "https://git.example.org/acme/infra.git"
PLACES = [
    Place(
        "web-shop-cart",
        "claude-mia",
        SHOP,
        "The cart and its checkout",
        "shop",
        ("coupon", "wishlist", "stock", "voucher", "address_book", "gift_card", "bundle", "rating", "delivery_slot"),
        {"area": "checkout", "ticket": "SHOP-218"},
    ),
    Place(
        "web-shop-search",
        "codex-ben",
        SHOP,
        "A faster search for the shop",
        "catalog",
        ("facets", "synonyms", "suggestions", "ranking", "filters", "spelling", "recent", "popular", "export"),
        {"area": "search", "ticket": "SHOP-231"},
    ),
    Place(
        "payments-refunds",
        "claude-ruth",
        PAY,
        "Refunds, and the ledger behind them",
        "payments",
        ("refund", "chargeback", "ledger", "invoice", "currency", "receipt", "payout", "dunning", "limits"),
        {"area": "refunds", "ticket": "PAY-311"},
    ),
    Place(
        "payments-webhooks",
        "codex-ben",
        PAY,
        "Webhooks of the payment provider",
        "webhooks",
        ("signature", "replay", "retries", "queue_reader", "dead_letters", "schema", "throttle", "audit", "clock_skew"),
        {"area": "webhooks"},
    ),
    Place(
        "handbook",
        "docs-agent",
        DOCS,
        "Guides for new colleagues",
        "guides",
        ("onboarding", "releases", "on_call", "holidays", "reviews", "incidents", "glossary", "security", "travel"),
        {"area": "docs"},
    ),
    Place(
        "infra-clusters",
        "claude-ruth",
        INFRA,
        "Clusters and their alarms",
        "infra",
        ("autoscaling", "alerts", "backups", "quotas", "ingress", "rotation", "budget", "drains", "nodes"),
        {"area": "platform", "ticket": "OPS-77"},
    ),
]
NOTES = ".handrail/notes.md"
FORKED = "web-shop-cart"
DENIALS = [
    "Pull and rebase first, the branch is behind main.",
    "Not on a Friday afternoon. Ask me again on Monday.",
    "Open a pull request instead of pushing to main.",
]
QUESTIONS = [
    ("Did the tests of the whole package pass, or only the new ones?", "All of them: 41 passed."),
    ("Which ticket is this for?", "The one in the branch's name."),
]
MESSAGES = [
    ("claude-mia", "mia", "Prices are in cents everywhere. Never use floats for money."),
    ("codex-ben", "ben", "Please keep the public API of the search stable until the release."),
    ("claude-ruth", "ruth", "The provider's sandbox is down today; use the recorded answers."),
]


LESSONS = [
    Lesson("web-shop-cart", 0, "Prices are whole cents everywhere; `round()` once broke an invoice.", "accept"),
    Lesson("web-shop-cart", 2, "`make test` needs the database of the search; run the package's own tests.", "decline"),
    Lesson("web-shop-search", 0, "Files in `build/` are made by `make index`; never edit them.", "accept", "ben", 90),
    Lesson("payments-refunds", 0, "The provider's sandbox rejects amounts below 50 cents.", "accept", "ruth", 180),
    Lesson("payments-refunds", 3, "Refunds of a closed month go to the ledger of the next one.", ""),
    Lesson("payments-webhooks", 1, "Signatures are checked over the raw body, before it is parsed.", "accept", "ruth"),
    Lesson("handbook", 1, "Headings are sentences. The linter of the handbook refuses title case.", ""),
    Lesson("infra-clusters", 0, "Drain nodes one by one, and wait for the alarms to be quiet.", "accept", "ruth"),
]
NOTES_EACH, ARTIFACT_EACH = 3, 4  # tasks of a place
EDITED_NOTES = (
    "payments-refunds", "ruth",
    "\n## From ruth\n\n- The auditors come on Thursday: leave `ledger.py` as it is until then.\n",
)  # fmt: skip
HANDED_OVER = (
    "web-shop-search", "mia", "claude-mia",
    "The facets are done, the ranking is not. Start with the failing test in `test_settings.py`.",
)  # fmt: skip


def forks_of(place: Place) -> list[Place]:
    """Return two other attempts at what comes next at a place, by other agents."""
    return [
        replace(place, key=f"{place.key}-{name}", agent=agent, description=words, labels={"area": "checkout"})
        for name, agent, words in (
            ("short", "codex-ben", "The same task with less code"),
            ("tests-first", "claude-ruth", "The same task, its tests first"),
        )
    ]


def first_files(place: Place) -> dict[str, str]:
    """Return the files that the repository has when the workspace is made."""
    return {
        "README.md": texts.readme(place.key, place.description),
        "pyproject.toml": texts.pyproject(place.package),
        f"src/{place.package}/__init__.py": f'"""{place.description}."""\n',
        f"src/{place.package}/settings.py": texts.SETTINGS,
        "tests/test_settings.py": texts.test_of("settings"),
        ".github/workflows/ci.yml": texts.CI,
        "docs/changes.md": "# Changes\n",
    }


def task(place: Place, turn: int, random: Random, files: dict[str, str]) -> Task:
    """Return the next task of a place: a feature with its tests, then one of the more remarkable endings."""
    feature = place.features[turn % len(place.features)]
    again = turn >= len(place.features)
    module, test = f"src/{place.package}/{feature}.py", f"tests/test_{feature}.py"
    steps = [_look(random), _read(module if module in files else f"src/{place.package}/settings.py")]
    if module in files:
        steps += [
            _edit(module, files[module], texts.second_part(feature, turn, random), "I add what is still missing.")
        ]
    else:
        steps += [_write(module, texts.module_of(feature, random), "First the module itself.")]
    steps += [_write(test, texts.test_of(feature), "Now its tests.")]
    fails = random.random() < 0.4
    if fails:
        steps += [_tests(test, feature, fails=True)]
        written = steps[-3].files[module]
        steps += [_edit(module, written, texts.mend(feature), "The rounding was wrong; I mend it.")]
    steps += [_tests(test, feature)]
    steps += [_note(files.get("docs/changes.md", "# Changes\n"), feature, again)]
    if turn % NOTES_EACH == 0:
        before = files.get(NOTES, "")
        steps += [_write(NOTES, texts.notes(before, feature, place.package, fails=fails), "I keep my notes for later.")]
    steps += _ending(place, feature, turn, random)
    words = feature.replace("_", " ")
    prompt = random.choice(texts.PROMPTS).format(words=words, package=place.package)
    return Task(prompt, steps, passes=random.random() < 0.85)


def thought_of(task: Task) -> str:
    """Return what the agent thinks about its task before it begins."""
    files = ", ".join(dict.fromkeys(path for step in task.steps for path in step.files))
    return f"The task: {task.prompt}\n\nI expect to touch {files}. First I look at what is there, tests come with it."


def last_words(task: Task) -> str:
    """Return the agent's last message: what it did, in Markdown."""
    files = "\n".join(f"- `{path}`" for path in dict.fromkeys(path for step in task.steps for path in step.files))
    checks = "All tests pass." if task.passes else "One test of the settings still fails; it failed before I began."
    return f"{task.prompt.split('.')[0]}: done.\n\nI changed\n\n{files}\n\n{checks}"


def artifact_of(place: Place, task: Task) -> tuple[str, list[bytes], str]:
    """Return name, paths and note of what is kept for others after a task."""
    paths = [f"src/{place.package}".encode(), b"docs/changes.md"]
    return f"{place.package}-preview", paths, f"The package and its changes after: {task.prompt}"


def _bash(command: str, says: str = "", **more) -> Step:
    return Step("Bash", {"command": command}, says, **more)


def _look(random: Random) -> Step:
    command = random.choice(["git status --short", "ls -la", "git log --oneline | head -n 5", "git diff --stat"])
    return _bash(command, "I look around first.", prints="On branch main\nnothing to commit, working tree clean\n")


def _read(path: str) -> Step:
    return Step("Read", {"file_path": f"/workspace/{path}"}, "I read what is there.")


def _write(path: str, content: str, says: str, **more) -> Step:
    return Step("Write", {"file_path": f"/workspace/{path}", "content": content}, says, files={path: content}, **more)


def _edit(path: str, before: str, added: str, says: str) -> Step:
    """Append to a file as an agent does it: by replacing its last line."""
    old = before.rstrip("\n").rsplit("\n", 1)[-1]
    new = f"{old}\n{added}".rstrip("\n")
    at = before.rindex(old)
    after = before[:at] + new + before[at + len(old) :]
    if before.count(old) > 1:  # an edit must name one place: the whole file is written
        return _write(path, after, says)
    arguments = {"file_path": f"/workspace/{path}", "old_string": old, "new_string": new}
    return Step("Edit", arguments, says, files={path: after})


def _tests(path: str, feature: str, *, fails: bool = False) -> Step:
    prints = texts.pytest_output(path, feature, fails=fails)
    return _bash(f"python -m pytest -q {path}", "I run the tests.", prints=prints, exit_status=1 if fails else 0)


def _note(before: str, feature: str, again: bool) -> Step:
    words = f"- {'Improved' if again else 'Added'} {feature.replace('_', ' ')}.\n"
    return _write("docs/changes.md", before + words, "And a line in the changes.")


def _ending(place: Place, feature: str, turn: int, random: Random) -> list[Step]:
    commit = _bash(
        f"git add -A && git commit -q -m 'Add {feature}'", "I commit it.", prints=f"[main {turn:07x}] Add {feature}\n"
    )
    answer = random.choice([("approve", "")] * 5 + [("deny", said) for said in DENIALS[:1]] + [("ask", "")])
    push = _bash(f"git push origin HEAD:{feature}", "It is done; I push it.", answer=answer, prints="To origin\n")
    return [commit, push, *(make(feature, random) for make in random.sample(REMARKABLE, 1 + (turn % 3 == 0)))]


def _force(feature, random) -> Step:
    return _bash("git push --force origin main", "The history is untidy.", answer=("deny", DENIALS[2]))


def _fetch(feature, random) -> Step:
    host = random.choice(["rates.example.com", "status.example.net", "registry.example.org"])
    return _bash(
        f"curl -fsS https://{host}/v1/{feature}", "I need the current figures.", prints='{"eur": 1, "usd": 1.09}\n'
    )


def _install(feature, random) -> Step:
    package = random.choice(["rapidfuzz", "orjson", "python-dateutil", "tenacity"])
    content = f"{package}\n"
    return _bash(
        f"pip install {package}", f"{package} does this better.", files={"requirements.txt": content},
        prints=f"Collecting {package}\nSuccessfully installed {package}\n",
    )  # fmt: skip


def _clean(feature, random) -> Step:
    return _bash("rm -rf build dist", "Old builds are in the way.", files={"build/lib.txt": None})


def _workflow(feature, random) -> Step:
    content = texts.CI + f"      - run: python -m {feature}\n"
    return _write(".github/workflows/ci.yml", content, "CI should run it too.", answer=("approve", ""))


def _outside(feature, random) -> Step:
    return _bash(f"cp docs/changes.md /tmp/{feature}.md", "A copy to compare with.")


def _secret(feature, random) -> Step:
    return _bash("cat .env", "I need the address of the database.", answer=("deny", "There is nothing for you in it."))


def _held(feature, random) -> Step:
    return _bash(
        f"python -m pytest -q tests -k {feature} --basetemp=/srv/{feature}",
        "Once more, with the files kept.",
        prints=f"PermissionError: [Errno 13] Permission denied: '/srv/{feature}'\n",
        exit_status=1,
        blocked=({"kind": "write", "what": f"/srv/{feature}"},),
    )


def _format(feature, random) -> Step:
    return _bash("make format", "The linter wants it tidy.", prints="12 files left unchanged\n")


REMARKABLE = [_force, _fetch, _install, _clean, _workflow, _outside, _secret, _held, _format]
WAITING_PROMPT = "Please bring this to its end today, and tell me when it is done."
# What still needs approval at the end: (key of the place, command, what the agent says).
WAITING = [
    ("web-shop-cart", "git push origin HEAD:main", "Everything of SHOP-218 is in. I push it now."),
    ("payments-refunds", "psql $DATABASE_URL -c 'DELETE FROM refunds WHERE draft'", "Drafts block the close."),
    ("infra-clusters", "kubectl drain node-7 --ignore-daemonsets", "Node 7 has to be restarted."),
]  # fmt: skip

"""What the documents say is what the code does."""

import json
import re
import shlex

from django.core.management import get_commands, load_command_class

from approvals.agents.claude_code.settings import settings_to_copy
from dashboard.ops import tasks
from tests.support import CHECKOUT

README = (CHECKOUT / "README.md").read_text()
# What settings.py reads, as its reading functions are called there.
READ = re.compile(r'\benv(?:_[a-z]+)?\(\s*"([A-Z_]+)"')


def test_the_settings_tables_list_exactly_what_settings_read():
    tables = README + (CHECKOUT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \|", tables, flags=re.MULTILINE)
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == set(READ.findall((CHECKOUT / "dashboard" / "settings.py").read_text()))


def test_nothing_else_reads_a_variable_of_ours():
    elsewhere = [
        path.relative_to(CHECKOUT)
        for app in ("dashboard", "workspaces", "approvals", "handrail_verify")
        for path in (CHECKOUT / app).rglob("*.py")
        if path.parent.name != "snippets"  # given out, to run elsewhere
        and path.name != "command_hook.py"  # runs beside agents
        and re.search(r"(environ\.get\(|environ\[|getenv\()[\"'](HANDRAIL_|DATABASE_URL)", path.read_text())
    ]
    assert elsewhere == []


def test_the_hook_of_the_agents_page_is_the_one_that_connect_gives_out():
    page = (CHECKOUT / "docs" / "agents.md").read_text()
    shown = json.loads(re.search(r"```json\n(.*?)```", page, flags=re.DOTALL).group(1))
    assert shown["hooks"]["PreToolUse"] == settings_to_copy()["hooks"]["PreToolUse"]


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_of_the_documents_lead_to_files_and_headings():
    documents, seen = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")], 0
    for document in documents:
        shown = re.sub(r"<!--.*?-->", "", document.read_text(), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", shown):
            page = document.parent / target if target else document
            assert page.exists(), f"{document.name} points to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
                assert anchor in map(anchor_of, headings), f"{document.name} points to {target}#{anchor}"
            seen += 1
    assert seen > 20


def test_modules_and_names_of_the_architecture_page_exist():
    page = (CHECKOUT / "docs" / "architecture.md").read_text()
    files = [
        path
        for app in ("dashboard", "workspaces", "approvals", "handrail_verify", "static")
        for path in (CHECKOUT / app).rglob("*.*")
    ]
    known = {path.relative_to(CHECKOUT).as_posix() for path in files} | {path.name for path in files}
    assert set(re.findall(r"`([\w./-]+\.(?:py|js))`", page)) - known == set()
    named = re.findall(r"`([A-Za-z_.]+)`\s+(?:in\s+|\()`([\w/]+/[\w/]+\.py)`", page)
    assert len(named) > 10
    assert [
        (name, module)
        for name, module in named
        if not re.search(rf"\b{name.rpartition('.')[2]}\b", (CHECKOUT / module).read_text())
    ] == []


def test_files_and_programs_that_the_documents_name_are_there():
    rooms = "dashboard|workspaces|approvals|handrail_verify|tests|bench|deploy|static|templates|client|docs|findings"
    made = {"bench/results", "bench/tools"}  # by running the benchmarks
    lost, seen = [], 0
    for document in [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")]:
        page = document.read_text()
        named = set(re.findall(rf"`((?:{rooms})/[\w./-]*)`", page)) - made
        programs = [module.replace(".", "/") for module in re.findall(rf"python -m ((?:{rooms})(?:\.\w+)*)", page)]
        lost += [(document.name, path) for path in named if not (CHECKOUT / path).exists()]
        lost += [
            (document.name, path)
            for path in programs
            if not any((CHECKOUT / f"{path}{end}").exists() for end in (".py", "/__main__.py"))
        ]
        seen += len(named) + len(programs)
    assert lost == []
    assert seen > 100


def test_every_make_target_of_the_documents_exists():
    makefile = (CHECKOUT / "Makefile").read_text()
    named = set(re.findall(r"`make ([\w-]+)", README + (CHECKOUT / "CONTRIBUTING.md").read_text()))
    assert {"up", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_command_of_the_documents_is_one_that_manage_takes():
    documents = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")]
    texts = {path: path.read_text().replace("\\\n", " ") for path in documents}
    known = get_commands()
    named = {(page, name) for page, text in texts.items() for name in re.findall(r"manage\.py ([a-z_]+)", text)}
    assert {(page, name) for page, name in named if name not in known} == set()
    lines = [
        line
        for text in texts.values()
        for line in re.findall(r"^(?: {4}|[A-Z_]+=\S+ )*\.venv/bin/python manage\.py (.+)", text, flags=re.MULTILINE)
    ]
    assert len(lines) > 10
    for line in lines:
        name, *arguments = shlex.split(re.split(r" <|  +#", line)[0])
        load_command_class(known[name], name).create_parser("manage.py", name).parse_args(arguments)


def test_no_document_offers_a_command_that_a_fresh_debian_does_not_have():
    fenced = re.compile(r"```(?:[a-z]*)\n(.*?)```", re.DOTALL)
    found = []
    for document in [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md"), CHECKOUT / "client" / "README.md"]:
        text = re.sub(r"<!--.*?-->", "", document.read_text(), flags=re.DOTALL)
        # What a helper process is called is not there to be copied.
        prose = re.sub(r"(?m)^- \*\*.+?\*\* \(`python -m", "", text)
        inline = [name for name in re.findall(r"`([^`\n]+)`", prose) if name.startswith("python ")]
        found += [(document.name, line) for line in inline]
        found += [(document.name, code) for code in fenced.findall(text) if re.search(r"(?m)^(python|pip) ", code)]
    assert found == []


def test_no_page_offers_a_command_that_a_fresh_debian_does_not_have():
    templates = [*(CHECKOUT / "templates").rglob("*.html")]
    offered = [
        path.name
        for path in templates
        if re.search(r"<code>(?:python|pip) |command=\"(?:python|pip) ", path.read_text())
    ]
    modules = [path for app in ("dashboard", "workspaces", "approvals") for path in (CHECKOUT / app).rglob("*.py")]
    modules.remove(CHECKOUT / "approvals" / "policy" / "samples.py")  # calls of agents, which nobody copies
    # Programs that set machines up take this line; what stands above it says which Python.
    modules.remove(CHECKOUT / "workspaces" / "management" / "commands" / "host.py")
    in_code = [path.name for path in modules if re.search(r"python manage\.py|[\"`]pip install", path.read_text())]
    assert (offered, in_code) == ([], [])


def test_every_scheduled_task_exists():
    from django.utils.module_loading import import_string

    assert [callable(import_string(path)) for path in tasks.SCHEDULED] == [True] * len(tasks.SCHEDULED)


def test_constraints_name_versions_and_no_hosts():
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []


# Sentences of the interface that were replaced, and do not come back.
OLD_WORDS = (
    "may stay empty",
    "Leave it as it is",
    "This is not yours to do",
    "This form had grown old",
    "There is nothing here for you",
    "Make it</button>",
    "Put back…",
    "Bring it back",
    "Pinned; let it go",
    "What is big in",
    "Not undone by it",
    "Approve exactly this",
    "Approve this instead",
    "Deny after all",
    "Allow this for a while",
    "its own words",
    "Nothing here carries these words",
    "Read this with the phone",
    "was stopped as asked",
    "That cursor is none of ours",
    "That moment is over",
    "Fell asleep",
    "Woke up",
    "Going to sleep",
    "Waking up",
    "Held back a connection",
    "Where less is offered",
    "has a life of its own",
    "What it may reach",
)


def test_the_old_words_of_the_interface_do_not_come_back():
    pages = [*(CHECKOUT / "templates").rglob("*.html"), *(CHECKOUT / "static" / "js").rglob("*.js")]
    modules = [
        path
        for app in ("dashboard", "workspaces", "approvals", "handrail_verify")
        for path in (CHECKOUT / app).rglob("*.py")
    ]
    texts = {path.relative_to(CHECKOUT): path.read_text() for path in [*pages, *modules]}
    assert [(str(path), words) for path, text in texts.items() for words in OLD_WORDS if words in text] == []


def test_the_operations_page_lists_exactly_the_helper_processes_of_web():
    page = (CHECKOUT / "docs" / "operations.md").read_text()
    sources = [path.read_text() for app in ("approvals", "workspaces") for path in (CHECKOUT / app).rglob("*.py")]
    users = [text for text in sources if "from dashboard.workers.pool import" in text and "Worker," in text]
    started = {module for text in users for module in re.findall(r'(?:Worker|__init__)\("([\w.]+)"', text)}
    assert set(re.findall(r"^- \*\*.+?\*\* \(`python -m ([\w.]+)", page, re.MULTILINE)) == started
    assert f"{['no', 'one', 'two', 'three', 'four'][len(started)]} kinds of short-lived helper processes" in page

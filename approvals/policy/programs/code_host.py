"""Reads at the project's own code host: a closed grammar of the arguments of gh, glab, git fetch and git ls-remote.

Such a read runs outside the envelope, where the person's credentials are, so each option is one that is known neither
to write nor to start anything, nor to show a credential. The program that runs it judges the same words again, when no
variable is left in them (`read_in`).
"""

import re
from dataclasses import dataclass

from ..shell_words import OPAQUE, Word
from .grammar import parse_table, read_arguments

LISTS = """-s=text -L=num -l=text -a=text -A=text -S=text -B=text -H=text -R=repo --state=text --limit=num --label=text
    --assignee=text --author=text --search=text --json=text -q=jq --jq=jq --base=text --head=text --repo=repo
    --branch=text --status=text -t=text --template=text --draft --workflow=text --event=text --user=text --commit=text
    --created=text --milestone=text --mention=text --app=text --all --archived --visibility=text --language=text
    --topic=text --exclude-drafts --exclude-pre-releases --order=text --sort=text"""
VIEWS = """-c -R=repo --comments --repo=repo --json=text -q=jq --jq=jq -t=text --template=text --log --log-failed
    --job=text -j=text -v --verbose --exit-status --attempt=num -a=num"""
GH = parse_table(
    f"""
    pr list|issue list|run list|release list|repo list|workflow list|label list|milestone list|cache list|ruleset list
        : {" ".join(LISTS.split())} : text*
    pr view|issue view|run view|repo view|release view|workflow view|ruleset view : {" ".join(VIEWS.split())} : ref*
    pr diff : -R=repo --repo=repo --name-only --patch --color=text -e=text --exclude=text : ref*
    pr checks : -R=repo --repo=repo --json=text -q=jq --jq=jq --required -t=text --template=text : ref*
    pr status|issue status : -R=repo --repo=repo --json=text -q=jq --jq=jq -c -t=text --template=text :
    search code|search issues|search prs|search repos|search commits : --json=text -L=num --limit=num -q=jq --jq=jq
        --repo=repo -R=repo --owner=text --state=text --label=text --author=text --language=text --sort=text
        --order=text --match=text --filename=text --extension=text --created=text --updated=text -t=text
        --template=text --merged --closed=text --assignee=text --involves=text : text*
    auth status : --active --hostname=host -h=host :
    """,
    "reads",
    "gh",
)
GH_API = parse_table(
    "api : -X=get --method=get -q=jq --jq=jq -t=text --template=text -H=accept --header=accept --paginate --slurp -i"
    " --include --cache=text --silent -f=field --raw-field=field -F=typed --field=typed --verbose --hostname=host"
    " --preview=text -p=text : endpoint",
    "reads",
    "gh",
)["api"]
GLAB = parse_table(
    """
    mr list|issue list|ci list|release list|label list|repo list|milestone list : -R=repo --repo=repo -a=text -A --all
        -c -M --closed --merged --author=text --assignee=text --label=text -l=text --search=text -P=num -p=num
        --per-page=num --page=num -F=text --output=text --output-format=text --source-branch=text --target-branch=text
        --reviewer=text --status=text --ref=text : text*
    mr view|issue view|release view|repo view : -R=repo --repo=repo -c --comments -s --system-logs -F=text
        --output=text -p=num -P=num : ref*
    mr diff : -R=repo --repo=repo --color=text --raw : ref*
    ci status|ci get : -R=repo --repo=repo -b=text --branch=text -c --compact -p=num -F=text --output=text -d : ref*
    ci trace : -R=repo --repo=repo -b=text : ref*
    """,
    "reads",
    "glab",
)
GLAB_API = parse_table(
    "api : -X=get --method=get --paginate -i --include --silent --output=text : endpoint", "reads", "glab"
)["api"]
GIT = parse_table(
    """
    fetch : -p -q -v -t --prune --all --quiet --verbose --tags --no-tags --depth=num --unshallow --dry-run --progress
        --no-progress : remote refspec*
    ls-remote : -q -t -h --heads --tags --refs --symref --exit-code --sort=text --quiet --branches : remote refspec*
    """,
    "reads",
    "git",
)
CHECKS = {
    "num": re.compile(r"\d+"),
    "repo": re.compile(r"[\w.-]+/[\w.-]+"),
    "ref": re.compile(r"#?[\w.][\w./#-]*|https://(?:github|gitlab)\.com/[\w./#-]+"),
    "host": re.compile(r"(?:github|gitlab)\.com"),
    "get": re.compile(r"GET|HEAD", re.IGNORECASE),
    "accept": re.compile(r"(?:Accept|X-GitHub-Api-Version):[\w\s./+;=,-]*", re.IGNORECASE),
    "endpoint": re.compile(r"(?![^?]*//)[\w.{}:%@~+/-]+(?:\?[\w.=&:%+/,\[\]{}@~*>-]*)?"),
    "field": re.compile(r"[\w\[\]-]+=(?s:.*)"),
    "typed": re.compile(r"[\w\[\]-]+=(?!@)(?s:.*)"),
    "remote": re.compile(r"[A-Za-z0-9_][\w.-]*"),
    "refspec": re.compile(r"[A-Za-z0-9_][\w./-]*(?::[A-Za-z0-9_][\w./-]*)?"),
    "jq": re.compile(r"(?s:.*)"),
    "text": re.compile(r"(?s:.*)"),
}
WHOLE = ("jq", "repo", "host", "get", "accept", "remote", "refspec", "typed")  # kinds in which no variable may stand
ENVIRONMENT = re.compile(
    r"\benv\b|\$ENV\b|\$__prog_args\b|\binput_filename\b|\bget_search_list\b|\b(?:import|include)\b"
)
OPERATION = re.compile(r"\s*(?:query\b|\{|fragment\b)")
CHANGES = re.compile(r"mutation|subscription", re.IGNORECASE)
PROGRAMS = ("gh", "glab", "git")


@dataclass(frozen=True)
class Read:
    """One read as the grammar sees it: `arguments` are those of `program` behind its `verb`, as (kind, option, text).

    `words` are all of it, as the program is called; `folder` is what `git -C` names.
    """

    words: tuple
    program: str
    verb: str
    folder: str
    arguments: tuple

    def values(self, *kinds):
        """Return the texts of these kinds; "operand" stands for whatever belongs to no option."""
        wanted = (each for each in self.arguments if each[0] in kinds or ("operand" in kinds and not each[1]))
        return [text for _kind, _option, text in wanted]


def read_in(words):
    """Return the Read that the end of these words is, behind wrappers such as `timeout 9`; None if there is none.

    A word that is not certain makes it none.
    """
    for start, name in enumerate(words):
        if name in PROGRAMS:
            argv = words[start:]
            return _taken_apart(argv) if is_read(argv) and not any(OPAQUE in word for word in argv) else None
    return None


def _taken_apart(argv):
    folder, rest = "", argv[1:]
    if argv[0] == "git" and rest[:1] == ["-C"]:
        folder, rest = rest[1], rest[2:]
    if argv[0] == "git":
        grammar, taken = GIT[rest[0]], 1
    elif rest[0] == "api":
        grammar, taken = GH_API if argv[0] == "gh" else GLAB_API, 1
    else:
        grammar, taken = (GH if argv[0] == "gh" else GLAB)[" ".join(rest[:2])], 2
    found, _problems = read_arguments(grammar, [Word(text) for text in rest[taken:]])
    arguments = tuple((each.kind, each.option, each.word.text) for each in found)
    return Read(tuple(argv), argv[0], " ".join(rest[:taken]), folder, arguments)


def is_read(argv):
    """Return True if these words, as a program gets them, only read at the code host."""
    if not argv or argv[0] not in PROGRAMS or not all(isinstance(text, str) for text in argv):
        return False
    words = [Word(text) for text in argv[1:]]
    if argv[0] == "git" and argv[1:2] == ["-C"]:
        words = words[2:]
    return reads(argv[0], words)


def reads(name, words):
    """Return True if these words of gh, glab or git only read, whatever a variable in the middle of one holds."""
    if any(word.splits or word.glob or word.pipe or word.text.startswith(OPAQUE) for word in words):
        return False
    texts = [word.text for word in words]
    if name == "git":
        return texts[:1] in (["fetch"], ["ls-remote"]) and _fits(GIT[texts[0]], words[1:])
    table, api = (GH, GH_API) if name == "gh" else (GLAB, GLAB_API)
    if texts[:1] == ["api"]:
        return _api_reads(api, words[1:])
    grammar = table.get(" ".join(texts[:2]))
    return grammar is not None and _fits(grammar, words[2:])


def _fits(grammar, words):
    arguments, problems = read_arguments(grammar, words)
    return not problems and all(map(_is_plain, arguments))


def _is_plain(argument):
    text = argument.word.text.replace(OPAQUE, "0")
    if argument.kind in WHOLE and OPAQUE in argument.word.text:
        return False
    if argument.kind == "jq" and ENVIRONMENT.search(text):
        return False
    check = CHECKS.get(argument.kind)
    return check is not None and check.fullmatch(text) is not None


def _api_reads(grammar, words):
    """Return True for a GET; fields make a request a POST unless the method is named, or are a query of GraphQL."""
    arguments, problems = read_arguments(grammar, words)
    if problems or not all(map(_is_plain, arguments)):
        return False
    endpoints = [argument.word.text for argument in arguments if argument.kind == "endpoint"]
    fields = [argument.word for argument in arguments if argument.kind in ("field", "typed")]
    if len(endpoints) != 1:
        return False
    if endpoints[0].strip("/") == "graphql":
        return any(argument.kind == "get" for argument in arguments) is False and _only_queries(fields)
    return not fields or any(argument.kind == "get" for argument in arguments)


def _only_queries(fields):
    """Return True if one field is a GraphQL document without any operation that changes something."""
    documents = [word for word in fields if word.text.startswith("query=")]
    if len(documents) != 1 or not documents[0].literal:
        return False
    text = documents[0].text.removeprefix("query=")
    return OPERATION.match(text) is not None and CHANGES.search(text) is None

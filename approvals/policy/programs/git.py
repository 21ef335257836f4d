"""git: read-only forms, by table; all others are in `git_changes.py`."""

import re
from dataclasses import replace

from .. import impacts
from . import git_changes as changes
from . import searches
from .grammar import read_arguments
from .registry import handles, judged_arguments, kind, parse_table

DIFF = """--stat --numstat --shortstat --name-only --name-status --patch -p -u --no-patch -s --color=text? --no-color
    -U=num --unified=num -w -b --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines
    --word-diff=text? --summary -M -C --find-renames=num? --diff-filter=text --no-renames --raw --no-prefix --check
    --exit-code --quiet -q --text -a --minimal --histogram --patience --function-context -W -z --full-index
    --abbrev=num? --dirstat -S=text -G=text --pickaxe-all --pickaxe-regex -R --relative --compact-summary
    --no-ext-diff --no-textconv --submodule --color-words --color-moved=text? --stat-width=num --merge-base --cc -c"""
LOG = """-# -n=num --max-count=num --since=text --after=text --until=text --before=text --author=text
    --committer=text --grep=text --all --branches --remotes --tags --graph --decorate=text? --no-decorate
    --format=text --pretty=text? --date=text --follow --reverse --merges --no-merges --first-parent --abbrev-commit
    --topo-order --date-order --skip=num -i -E -F --all-match --invert-grep --left-right --cherry-pick --cherry
    --ancestry-path --full-history -L=rev -g --walk-reflogs --oneline --regexp-ignore-case --no-abbrev-commit
    --no-walk --boundary --show-pulls --simplify-by-decoration --no-notes"""


def _flat(text):
    return " ".join(text.split())


READS = parse_table(
    f"""
    status : -s -b -u=text? -v -z --short --branch --porcelain=text? --long --untracked-files=text? --ignored=text?
        --show-stash --verbose --ahead-behind --no-renames --column --no-column : rev*
    log|show|whatchanged|reflog : {_flat(LOG)} {_flat(DIFF)} : rev*
    diff : --cached --staged {_flat(DIFF)} : rev*
    shortlog : -s -n -e --summary --numbered --email --since=text --until=text --no-merges --all --group=text : rev*
    blame|annotate : -L=rev -w -e -s -p -l -t -f -n -M -C --date=text --porcelain --line-porcelain --show-email : rev*
    ls-files : -c -d -m -o -i -s -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged
        --exclude-standard --full-name --error-unmatch --directory --eol --deduplicate -x=text : rev*
    ls-tree : -d -r -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev=num? : rev*
    grep : -# -n -i -w -v -h -H -E -G -P -F -l -L -c -o -p -W -z -q -I -a -r -e=text -A=num -B=num -C=num -m=num
        --cached --no-index-off --line-number --ignore-case --word-regexp --files-with-matches --count
        --name-only --heading --break --show-function --function-context --all-match --and --or --not --color=text?
        --max-depth=num --max-count=num --extended-regexp --fixed-strings --perl-regexp --only-matching : pattern rev*
    rev-parse : --abbrev-ref=text? --short=num? --verify --quiet -q --show-toplevel --git-dir --is-inside-work-tree
        --show-prefix --show-cdup --symbolic-full-name --all --branches --tags --absolute-git-dir
        --git-common-dir : rev*
    rev-list : --count {_flat(LOG)} --objects --left-only --right-only : rev*
    describe : --tags --always --dirty=text? --abbrev=num --long --all --exact-match --match=text --contains
        --first-parent : rev*
    merge-base : --is-ancestor --fork-point --all --octopus : rev*
    name-rev : --name-only --tags --always : rev*
    cat-file : -p -t -s -e : rev rev?
    for-each-ref : --format=text --sort=text --count=num --contains=text? --merged=text? --points-at=text : text*
    show-ref : --heads --tags --verify -q --quiet -s --hash=num? -d : text*
    count-objects : -v -H --verbose --human-readable :
    check-ignore|check-attr : -v -q -n -a --verbose --quiet --non-matching --all : rev*
    diff-tree|diff-index|diff-files : -r -t --root --no-commit-id --cached {_flat(DIFF)} : rev*
    var : -l : text*
    version : --build-options :
    cherry : -v : rev*
    range-diff : --no-dual-color --creation-factor=num {_flat(DIFF)} : rev*
    help : -a : text*
    archive : -v -l --list --format=text --prefix=text -o=out --output=out --worktree-attributes : rev*
    fsck : --full --no-dangling --unreachable :
    """,
    "reads",
    "git",
)
READ_ONLY_FORMS = parse_table(
    """
    branch : -a -r -v -l -q --all --remotes --verbose --list --show-current --contains=text? --no-contains=text?
        --merged=text? --no-merged=text? --sort=text --format=text --color=text? --no-color --column=text?
        --points-at=text --ignore-case -i : text*
    tag : -l -n=num? --list --sort=text --contains=text? --points-at=text --format=text --merged=text? --column=text?
        : text*
    remote : -v --verbose : text*
    config : --get --get-all --get-regexp --list -l --show-origin --show-scope --name-only --local --global --type=text
        --bool -z : text*
    submodule : --quiet -q --recursive --cached : text*
    worktree|notes|bisect : : text*
    """,
    "reads",
    "git",
)
# Subcommands that show nothing of what is in a file, with the options by which they do.
NAMES_ONLY = dict.fromkeys(("ls-files", "ls-tree", "check-ignore", "check-attr", "shortlog"), re.compile("$.")) | {
    "status": re.compile(r"-[A-Za-z]*v.*|--verbose"),
    "log": re.compile(r"-[A-Za-z0-9]*[pucWLU].*|--(?:patch|unified|word-diff|color|cc|function-context|check).*"),
}
SECRET_SETTING = re.compile(r"(?i)header|cookie|credential|passw|token|secret|proxy|insteadof|\.key$|auth")
ADDRESS_SETTING = re.compile(r"(?i)^(?:remote|submodule|branch|url|lfs)\.|url$")
GLOBAL = {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}


@kind("rev")
def revision(word, name, judge):
    """Judge a revision, a range, a path, or `revision:path`; paths must not lead outside or to secrets."""
    if word.opaque and word.splits:
        return [impacts.unknown("names a revision that is unknown until it runs")]
    if word.opaque:
        return [impacts.unknown("names a file that is unknown until it runs")] if ":" in word.text else []
    found = []
    for part in [word.text, *word.text.split(":")[1:]]:
        if part and not re.fullmatch(r"[A-Za-z0-9_./@{}^~-]*\.\.\.?[A-Za-z0-9_./@{}^~-]*", part):
            piece = type(word)(part, glob=word.glob)
            found += [e for e in judge.reads(piece) if e.tier != "low"]
        elif re.search(r"(?:^|/)\.\.(?:/|$)", part) or part.startswith(("/", "~")):
            found += [e for e in judge.reads(type(word)(part)) if e.tier != "low"]
    return found


@kind("message")
def message(word, name, judge):
    if word.opaque and word.splits:
        return [impacts.unknown("has a message that may become several words")]
    return []


@handles("git")
def git(name, words, simple, judge):
    entered = _entered(words, simple, judge)
    if entered is not None:
        return entered
    found, rest = _global_options(words, simple)
    if not rest:
        plain = not words or words[0].text in ("--version", "--help")
        return found if plain else [*found, impacts.unknown("names no subcommand")]
    verb, rest = rest[0], rest[1:]
    if not verb.literal:
        return [*found, impacts.unknown("uses a subcommand of git that is unknown until it runs")]
    if simple.moved:
        found.append(impacts.Effect("unclear", "runs git in another folder, whose own settings apply", "medium"))
    verb = verb.text
    if verb == "reflog" and rest and rest[0].text in ("expire", "delete", "drop"):
        return [*found, impacts.local(f"changes the repository with git reflog {rest[0].text}", spelled=(verb,))]
    if verb in READS:
        arguments, problems = read_arguments(READS[verb], rest)
        if problems and verb in changes.NOT_HELD:
            return found + changes.effects_of_change(verb, rest, judge)
        if verb == "grep":
            found += searches.of_pathspecs(rest, judge.simple, judge)
        judge.names_only = verb in NAMES_ONLY and not any(NAMES_ONLY[verb].fullmatch(word.text) for word in rest)
        found += judged_arguments(arguments, problems, "git", judge)
        judge.names_only = False
        return found
    if verb in READ_ONLY_FORMS and _reads_only(verb, rest):
        found += _printed_settings(verb, [word.text for word in rest])
        return found + [e for w in rest for e in revision(w, verb, judge)]
    return found + changes.effects_of_change(verb, rest, judge)


def _entered(words, simple, judge):
    """Return the effects of `git -C folder …`, which are those of git in that folder; None for other forms."""
    at = 1 if words and words[0].text in GLOBAL and words[0].literal else 0
    if len(words) < at + 3 or words[at].text != "-C" or not (words[at + 1].literal and words[at + 1].text):
        return None
    found = [effect for effect in judge.reads(words[at + 1]) if effect.tier != "low"]
    cwds = tuple(dict.fromkeys(end for place in judge.places(words[at + 1]) for end in place.reals))
    judge.simple = replace(simple, cwds=cwds, moved=any(cwd != judge.world.root for cwd in cwds))
    found += git("git", [*words[:at], *words[at + 2 :]], judge.simple, judge)
    judge.simple = simple
    return found


def _global_options(words, simple):
    rest = list(words)
    while rest and rest[0].text in GLOBAL and rest[0].literal:
        rest.pop(0)
    if rest and rest[0].text.startswith("-") and rest[0].text not in ("--version", "--help"):
        flag = rest[0].text.split("=")[0]
        found = [impacts.unknown(f"uses {flag} before the subcommand, which can change what git does")]
        while rest and rest[0].text.startswith("-"):
            takes_value = rest[0].text in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path")
            rest = rest[2:] if takes_value else rest[1:]
        return found, rest
    return [], [] if rest and rest[0].text.startswith("-") else rest


def _printed_settings(verb, texts):
    """Return the effect of printing settings that may hold tokens: an address of a remote, a header, or all of them."""
    operands = [text for text in texts if not text.startswith("-")]
    address = impacts.Effect(
        "read", "prints addresses of remotes, which may hold a token", "medium", "no", ".git/config"
    )
    if verb == "remote":
        return [address] if operands[:1] == ["get-url"] or {"-v", "--verbose"} & set(texts) else []
    if verb != "config" or "--name-only" in texts:
        return []
    keys = [text for text in operands if text not in ("get", "list")]
    several = {"--list", "-l", "--get-regexp", "--get-urlmatch"} & set(texts) or operands[:1] == ["list"] or not keys
    if several or any(SECRET_SETTING.search(key) for key in keys):
        says = "prints git's settings, where tokens may be"
        return [impacts.Effect("read", says, "high", "no", ".git/config", held="asks")]
    return [address] if any(ADDRESS_SETTING.search(key) for key in keys) else []


def _reads_only(verb, words):
    """Return True for the listing forms of subcommands that can also change something."""
    arguments, problems = read_arguments(READ_ONLY_FORMS[verb], words)
    operands = [a.word.text for a in arguments if not a.option]
    if problems:
        return False
    if verb in ("branch", "tag"):
        listing = any(
            w.text in ("-l", "--list") or w.text.startswith(("--contains", "--merged", "--no-")) for w in words
        )
        return not operands or listing
    first = {
        "remote": ("", "get-url") if len(operands) > 1 else ("", "show"),  # `show NAME` asks the other machine
        "worktree": ("list",),
        "submodule": ("", "status", "summary"),
        "notes": ("", "list", "show"),
        "bisect": ("log",),
    }.get(verb)
    if verb == "config":
        asks = any(w.text in ("--get", "--get-all", "--get-regexp", "--list", "-l") for w in words)
        return asks or len(operands) == 1 or operands[:1] in (["get"], ["list"])
    return (operands[0] if operands else "") in first

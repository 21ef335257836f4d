"""git: changes of the repository and the working tree, and communication with other machines."""

import re
from dataclasses import replace

from .. import impacts
from ..opens import everything_below
from ..paths import MANIFEST, fits_protected, fits_secret
from ..shell_words import Word, names
from . import code_host
from .grammar import read_arguments
from .registry import judged_arguments, parse_table

# Local changes: a snapshot of the workspace undoes them. Files named as operands are judged as edits.
LOCAL = parse_table(
    """
    add|stage : -A -u -p -v -n -N --all --update --verbose --dry-run --intent-to-add --patch --renormalize
        --ignore-errors --refresh -f=! --force=! : rev*
    commit : -a -q -v -s -m=message -F=in --all --quiet --verbose --signoff --message=message --file=in --amend
        --no-edit --allow-empty --allow-empty-message --author=text --date=text --fixup=text --squash=text --only
        --include --reset-author --dry-run --short --no-status --cleanup=text -o -i --trailer=text --no-gpg-sign
        -n=! --no-verify=! : rev*
    switch : -c=text -d -q -C=text --create=text --detach --quiet --guess --no-guess --track -f=! --force=!
        --discard-changes=! : rev*
    checkout : -b=text -q --quiet --detach --track --no-track --guess --ours --theirs -p --progress --no-progress
        -f=! --force=! -B=! : rev*
    restore : -S -W -q -s=text --staged --worktree --quiet --source=text --ours --theirs -p : out*
    rm : -r -q --cached --dry-run -n --quiet --ignore-unmatch -f=! --force=! : gone*
    mv : -v -n -k --verbose --dry-run : moved* out
    merge : --no-ff --ff --ff-only --squash --no-commit --commit --no-edit -m=message -q --quiet --abort --continue
        --stat --no-stat -X=text --quit --no-verify=! : rev*
    rebase : --abort --continue --skip --onto=text --autostash --no-autostash --autosquash -q --quiet --keep-empty
        --rebase-merges --quit --show-current-patch -f=! --force-rebase=! --root=! : rev*
    cherry-pick|revert : -x -n -e --no-edit --no-commit --abort --continue --skip --quit -m=num --mainline=num : rev*
    reset : --soft --mixed -q --quiet -N --keep --merge -p --hard=! : rev*
    clean : -n --dry-run -q -e=text -f=! -d=! -x=! -X=! --force=! : rev*
    branch : -r -q -v -u=text -t --set-upstream-to=text --unset-upstream --track --no-track --quiet -d=! -D=!
        --delete=! -m=! -M=! --move=! -f=! --force=! -c=! -C=! --copy=! : rev*
    tag : -a -s -m=message -F=in --annotate --message=message -d=! --delete=! -f=! --force=! : rev*
    init : -q --quiet -b=text --initial-branch=text : out?
    stash : -u -a -q -k -p -m=message --message=message --include-untracked --all --quiet --keep-index --no-keep-index
        --index --staged --stat : text? rev*
    notes : -m=message -f=! : text*
    worktree : -b=text --detach --force=! -f=! : text? out? rev?
    gc|prune|repack : -q --quiet --auto -a -d --aggressive : text*
    bisect : : bisect text*
    """,
    "reads",
    "git",
)
PUSH = parse_table(
    "push : -u -q -v -n --set-upstream --quiet --verbose --tags --follow-tags --porcelain --progress --no-progress"
    " --dry-run --atomic -f=! --force=! --force-with-lease=! --force-if-includes=! --mirror=! --delete=! -d=! --prune=!"
    " --all=! --branches=! --no-verify=! -o=text : text*",
    "reads",
    "git",
)["push"]
FETCH = parse_table(
    """
    fetch : -p -q -v -t --prune --all --quiet --verbose --tags --no-tags --depth=num --unshallow --dry-run --progress
        -j=num --shallow-since=text : text*
    pull : -q -v --quiet --verbose --rebase --no-rebase --ff-only --ff --no-ff --autostash --no-edit --prune --tags
        --depth=num : text*
    clone : -q -v --quiet --verbose --depth=num -b=text --branch=text --single-branch --no-tags --progress : text out?
    ls-remote : -q -t -h --heads --tags --refs --symref --exit-code --get-url --sort=text --quiet --branches : text*
    """,
    "reads",
    "git",
)
MAIN_BRANCHES = {"main", "master", "trunk", "production", "release", "stable", "develop"}
# Subcommands that change git's settings or talk to other machines, in the forms that no table has.
NOT_HELD = ("remote", "submodule", "credential", "send-email", "lfs", "svn", "p4", "imap-send", "http-push", "archive")
NOT_HELD += (
    "send-pack",
    "fetch-pack",
    "http-fetch",
    "daemon",
    "instaweb",
    "subtree",
    "scalar",
    "annex",
    "request-pull",
)
# Subcommands that give the files of the working tree the content of another commit.
REPLACING = names("switch checkout restore merge rebase cherry-pick revert reset stash pull bisect")
UNNAMED_FILES = {"apply": "the patch", "am": "the patch", "read-tree": "the tree", "checkout-index": "the index"}


def effects_of_change(verb, words, judge):
    """Return the effects of a subcommand in a form that does not only read."""
    if verb == "push":
        return _push(words, judge)
    if verb in FETCH:
        return _fetch(verb, words, judge)
    if verb in LOCAL:
        return _local(verb, words, judge)
    if verb in INDEX_ONLY and (found := _index_only(verb, words, judge)) is not None:
        return found
    if verb in UNNAMED_FILES:
        says = f"writes the files that {UNNAMED_FILES[verb]} names"
        return [impacts.Effect("write", says, "high", "yes", held="runs", opens=_all_files(judge))]
    if verb == "config":
        texts = [word.text for word in words]
        scratch = all(judge.world.place(cwd).temporary for cwd in judge.simple.cwds) and "--global" not in texts
        held = "runs" if scratch and "--system" not in texts else ""
        says = "changes git's settings, which can start programs"
        return [impacts.Effect("write", says, "high", "partly", held=held, opens=_settings(texts, judge))]
    held = "asks" if verb in NOT_HELD else ""
    return [impacts.unknown(f"uses git {verb[:40]} in a form that Handrail does not know", held=held)]


def _all_files(judge):
    """Return the patterns (see opens) of the workspace's files."""
    return everything_below(judge.world.root) if judge.world.root else ()


def _settings(texts, judge):
    """Return the paths of the settings that `git config` may write: the user's, or those of each folder around it."""
    if "--global" in texts:
        return (f"{judge.world.home}/.gitconfig",)
    root = judge.world.root
    if not root or "--system" in texts or any(text.startswith(("-f", "--file", "--blob")) for text in texts):
        return ()
    found = []
    for cwd in judge.simple.cwds:
        folder = judge.world.place(cwd).lexical
        while folder == root or folder.startswith(f"{root}/"):
            found += [f"{folder}/.git/config", f"{folder}/.git/config.worktree"]
            folder = folder.rpartition("/")[0]
    return tuple(dict.fromkeys(found))


INDEX_ONLY = parse_table(
    """
    apply : --cached --check --stat --numstat --summary -R --reverse -v --verbose -q --quiet --recount --unidiff-zero
        --whitespace=text -p=num -C=num --include=text --exclude=text : in*
    read-tree : -v -q --empty -i : rev*
    """,
    "reads",
    "git",
)
LOOKS_AT_PATCH = {"--check", "--stat", "--numstat", "--summary"}


def _index_only(verb, words, judge):
    """Return the effects of forms that leave the files alone and change at most the index, or None for others."""
    arguments, problems = read_arguments(INDEX_ONLY[verb], words)
    texts = {word.text for word in words}
    if problems or (verb == "apply" and not texts & {"--cached", *LOOKS_AT_PATCH}):
        return None
    found = judged_arguments(arguments, [], "git", judge)
    return [*found, impacts.local(f"changes the index with git {verb}", spelled=(verb,))]


def _unattended(verb, words, simple):
    """Return the words without `-i` if git is told to open no editor for the list of commits."""
    editors = [value for name, value in simple.assigns if name == "GIT_SEQUENCE_EDITOR" and value]
    if verb != "rebase" or len(editors) != 1 or not editors[0].literal or editors[0].text not in ("true", ":"):
        return words
    return [word for word in words if word.text not in ("-i", "--interactive")]


def _local(verb, words, judge):
    words = _unattended(verb, words, judge.simple)
    arguments, problems = read_arguments(LOCAL[verb], words)
    of_index = verb == "rm" and not problems and any(word.text == "--cached" for word in words)
    found = [] if of_index else judged_arguments(arguments, problems, "git", judge)  # there it leaves the files alone
    loud = sorted({a.option for a in arguments if a.kind == "loud"})
    operands = [a.word for a in arguments if not a.option]
    written = _restored_paths(verb, words, operands, judge)
    found += written
    first = operands[0].text if operands else ""
    if verb == "bisect" and first not in ("start", "good", "bad", "reset", "skip", "old", "new"):
        found.append(impacts.starts(f"runs git bisect {first[:20]}"))
    if verb == "stash":
        found += _stashed(words, operands, judge)
        loud += [first] if first in ("drop", "clear") else []
    if verb == "clean":
        found += _cleaned(words, operands, judge)
    if verb == "worktree" and first not in ("add", "list"):
        loud.append(first)
    done = " ".join([f"git {verb}", *loud])
    changed = impacts.local(f"changes the repository with {done}", spelled=(verb, *loud))
    return [*found, replace(changed, opens=_all_files(judge) if _replaces_all(verb, written, judge) else None)]


def _replaces_all(verb, written, judge):
    """Return whether a subcommand may change any file: `checkout` and `restore` do not where they name others."""
    named = {effect.place.lexical for effect in written if effect.place is not None}
    return verb in REPLACING and (not named or judge.world.root in named)


def _restored_paths(verb, words, operands, judge):
    """Return writes by `git checkout REV PATH`, `git checkout -- PATH` and `git restore PATH`."""
    if verb not in ("checkout", "restore"):
        return []
    cut = next((i for i, word in enumerate(words) if word.text == "--"), None)
    texts = [word.text for word in words]
    if verb == "restore":
        paths = operands
        from_elsewhere = any(text.startswith(("-s", "--source")) for text in texts)
    else:
        paths = words[cut + 1 :] if cut is not None else operands[1:] or [w for w in operands if _names_files(w, judge)]
        from_elsewhere = len(operands) > len(paths)
    return [effect for path in paths for effect in _overwritten(path, from_elsewhere, verb, judge)]


def _names_files(word, judge):
    """Return True if the only operand of `git checkout` is a path rather than a branch."""
    return word.text == "." or any(place.protected or place.secret for place in judge.places(word))


def _overwritten(path, from_elsewhere, verb, judge):
    """Return the effects of putting the content of another commit or of the index in the place of a path."""
    found = judge.writes(path) if verb == "checkout" else []
    at_top = any(place.lexical == judge.world.root for place in judge.places(path))
    if path.text.startswith(":") or re.search(r"[*?\[]", path.text):
        name = path.text.rsplit("/", 1)[-1]
        wide = path.text.startswith(":") or fits_secret(name) or fits_protected(name, hidden=True)
        says = "overwrites files by a pattern that protected files may match"
        return [*found, impacts.Effect("write", says, "high", "partly")] if wide else found
    if at_top and from_elsewhere:
        says = "overwrites the whole workspace, protected files too, from another commit"
        found.append(impacts.Effect("write", says, "high", "partly"))
    return found


STASH_ALL = re.compile(r"-[A-Za-z]*[au][A-Za-z]*|--all|--include-untracked")


def _stashed(words, operands, judge):
    """Return what a stash does beyond tracked files: it may take away ignored ones, or bring in any commit's."""
    texts = [word.text for word in operands]
    verb, rest = (texts[0], operands[1:]) if texts else ("push", [])
    found = []
    if verb in ("push", "save") and any(STASH_ALL.fullmatch(word.text) for word in words):
        says, title = "takes untracked files away, secrets and protected ones too", "Stash untracked files"
        ignored = any(re.fullmatch(r"-[A-Za-z]*a[A-Za-z]*|--all", word.text) for word in words)
        taken = (*_all_files(judge), *(_manifest(judge) if ignored else ()))
        found.append(impacts.Effect("delete", says, "high", "yes", spelled=("stash",), title=title, opens=taken))
    if verb == "push":
        found += [effect for path in rest for effect in judge.writes(path, "takes away")]
    elif verb in ("pop", "apply", "drop", "show") and any(not STASHED.fullmatch(word.text) for word in rest):
        found.append(impacts.unknown("names a commit that is no stash"))
    elif verb not in ("push", "save", "list", "show", "pop", "apply", "drop", "clear"):
        found.append(impacts.unknown(f"uses git stash {verb[:20]} in a form that Handrail does not know"))
    return found


STASHED = re.compile(r"stash@\{\d+\}|\d+|-\S*")


def _cleaned(words, operands, judge):
    """Return deletions by `git clean`: without a path, or with ignored files, secrets and protected files too."""
    texts = [word.text for word in words]
    if any(re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*|--dry-run", text) for text in texts):
        return []
    ignored = any(re.fullmatch(r"-[A-Za-z]*[xX][A-Za-z]*", text) for text in texts)
    if operands and not ignored:
        return [effect for path in operands for effect in judge.writes(path, "deletes")]
    kept = any(".handrail" in text for text in texts) or operands
    taken = (*_all_files(judge), *(_manifest(judge) if ignored and not kept else ()))
    says = "deletes files that git does not track, secrets and protected ones too"
    return [
        impacts.Effect("delete", says, "high", "yes", spelled=("clean",), title="Delete untracked files", opens=taken)
    ]


def _manifest(judge):
    """Return the path of Handrail's manifest, which git ignores: what takes ignored files away means it as well."""
    return (f"{judge.world.root}/{MANIFEST}",) if judge.world.root else ()


FORCING = re.compile(r"\+|:.")  # at the beginning of a refspec that overwrites or deletes
OF_MANY = {
    "--mirror": "replaces all branches and tags on",
    "--prune": "deletes branches that are gone here on",
    "--all": "pushes all branches to",
    "--branches": "pushes all branches to",
}


def _push(words, judge):
    arguments, problems = read_arguments(PUSH, words)
    found = judged_arguments(arguments, problems, "git", judge)
    if any(not word.literal for word in words):
        found.append(impacts.unclear("pushes what is unknown until it runs"))
    operands = [a.word.text for a in arguments if not a.option and a.kind == "text"]
    loud = [a.option for a in arguments if a.kind == "loud"] + [ref for ref in operands[1:] if FORCING.match(ref)]
    names = [_branch(ref) for ref in operands[1:]]
    where = ", ".join(names) or "the current branch"
    remote = operands[0] if operands else "its remote"
    found += _address(operands[:1])
    if not loud:
        tags = any(word.text == "--tags" for word in words) and not names
        says = f"pushes all tags to {remote}" if tags else f"pushes to {where} on {remote}"
        return [*found, impacts.pushes(says, ("push",), [*names, *operands[:1]])]
    deletes = {"-d", "--delete"} & set(loud) or any(ref[0] == ":" for ref in loud)
    main = not names or any(name in MAIN_BRANCHES for name in names)
    says = f"{'deletes' if deletes else 'overwrites'} {where} on {remote}"
    of_many = next((says for option, says in OF_MANY.items() if option in loud), "")
    if of_many:
        says, main = f"{of_many} {remote}", True
    if set(loud) == {"--no-verify"}:
        says, main = f"pushes to {where} on {remote} without the project's checks", False
    tier = "critical" if main else "high"
    return [*found, impacts.pushes(says, ("push", *loud), [*names, *operands[:1]], tier)]


def _branch(ref):
    there = ref.lstrip("+").rsplit(":", 1)[-1]
    return there.removeprefix("refs/heads/").removeprefix("heads/") or ref.lstrip("+:") or "*"


def _fetch(verb, words, judge):
    arguments, problems = read_arguments(FETCH[verb], words)
    found = judged_arguments(arguments, problems, "git", judge)
    if any(not word.literal for word in words):
        found.append(impacts.unclear("names an address that is unknown until it runs"))
    operands = [a.word.text for a in arguments if not a.option]
    named = _address(operands[:1])
    found += [replace(e, title=f"Clone from {e.target}") if verb == "clone" and e.target else e for e in named]
    if verb in ("pull", "clone"):
        brought = impacts.local("brings in commits from elsewhere", spelled=(verb,))
        found.append(replace(brought, opens=_all_files(judge) if verb in REPLACING else None))
    if not named:
        remote = operands[0] if operands else "its remote"
        act = {"pull": "pulls from", "fetch": "fetches from"}.get(verb, "reads from")
        found.append(impacts.Effect("network", f"{act} {remote}", "high", "yes", spelled=(verb,)))
    if code_host.reads("git", [Word(verb), *words]):
        return [replace(effect, at_code_host=True) for effect in found]
    return found


def _address(operands):
    """Return effects of a remote: none for a configured name, the host of a URL; other transports start programs."""
    for text in operands:
        if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*|\.{1,2}(?:/[\w./-]*)?", text):
            return []
        if text.startswith(("https://", "http://")):
            return [impacts.contacts(text)]
        match = re.fullmatch(
            r"(?:ssh://)?(?:[\w][\w.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)(?::\d+/|[:/](?![:/]))[^:]*", text
        )
        if match and "://" not in text.removeprefix("ssh://"):
            return [impacts.Effect("network", f"contacts {match[1]}", "high", "no", target=match[1].lower())]
        return [impacts.starts(f"uses the address {text[:60]}, which can start a program")]
    return []

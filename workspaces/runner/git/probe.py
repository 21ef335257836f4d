"""Query git about a repository from inside a sandbox. Run by `python3 -c` with the query as a JSON argument.

{"what": "push", "folder", "remote", "refspecs", "steps", "patch", "left", "seconds", "root"} → {"remote", "sends", …};
    with `left` also {"left"}: what a push of HEAD leaves out; `known`: {branch: commit} that the remote is known to
    have, beyond what the repository's own record of it shows
{"what": "bundle", "folder", "refs", …} → not JSON but a git bundle of these refs; on failure exit status 1 with the
    sentence on standard error
{"what": "clean", "folder", "flags", "paths", …} → {"paths": […]}
{"what": "since", "folder", "base", "tip", …} → {"commits": […]} of the commit `tip`, by default HEAD, that are not
    reachable from the commit `base`
{"what": "uncommitted", "folder", …} → {"sha256"} of all that a commit could include: changes and new files.

With "own": true git also reads no configuration of the home: so for what Handrail itself sends. "lfs": the source of
`provisioning/git/lfs_filter.py` where files of git-lfs have their content, so that git compares pointers.
The answer is a JSON object, {"error": sentence} on failure. Standard library only, Python 3.9.
"""

import hashlib
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

COMMITS, FILES, REFS, PATHS, LEFT = 20, 50, 5, 10_000, 10
TAKEN, TAKEN_BYTES = 2_000, 64 << 20  # files, and bytes of them, that a rehearsed commit may include
PATCH_BYTES = 400_000
TEMPLATE_BYTES = 20_000  # of a pull request's template
OUTPUT = 2 << 20
GITS = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git")  # never by a PATH that a workspace can change
MOUNT_POINT = ".handrail/manifest.json"  # an empty file there is not part of the tree (`store/mount_point.py`)
# Run no program that the repository configures, and do not trust its commit-graph in place of the commits.
SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.commitGraph": "false",
    "core.bigFileThreshold": "1m",
    "core.quotePath": "false",
    "core.pager": "cat",
    "log.showSignature": "false",
    "diff.algorithm": "myers",
    "diff.ignoreSubmodules": "none",
    "diff.orderFile": "/dev/null",
    "diff.relative": "false",
    "diff.renames": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "core.multiPackIndex": "false",
    "pack.packSizeLimit": "0",
    "pack.threads": "1",
    "pack.useBitmaps": "false",
    "pack.windowMemory": "64m",
    "safe.directory": "*",
    "submodule.recurse": "false",
}


class NoAnswer(Exception):
    pass


NONE = "No readable git repository in the workspace."
# An agent can write what names these places, so that they could be anybody's: they are never bound into the sandbox.
ELSEWHERE = (
    "The repository is outside of this folder, as of a linked worktree, where Handrail does not read it. Push with git"
    " itself, or work in the repository's own folder."
)
BORROWS = (
    "The repository borrows objects from outside of this folder, where Handrail does not read them. Run `git repack"
    " -ad` and remove .git/objects/info/alternates, then try again."
)
PARTIAL = (
    "The repository is a partial clone: some of its objects are only where it was cloned from, and Handrail fetches"
    " nothing for it. Run `git fetch --refetch --no-filter` in it, then try again."
)


class Git:
    def __init__(self, folder, seconds, own=False, lfs=""):
        self.folder, self.until = folder, time.monotonic() + seconds
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent" if own else "/home/agent",
            "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks, by a program of its choice
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_GRAFT_FILE": "/dev/null",
        }
        if own:
            self.env["GIT_CONFIG_GLOBAL"] = "/dev/null"
        self.made = {}  # {branch or HEAD: commit} of rehearsed commits
        self.branch = ""
        settings = dict(SETTINGS)
        if lfs:
            settings["filter.lfs.clean"] = shlex.join([sys.executable, "-I", "-S", "-c", lfs, "clean", "--only-look"])
            settings["filter.lfs.required"] = "false"
        self.env["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (name, value) in enumerate(settings.items()):
            self.env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}

    def check_time(self):
        """Return the seconds left. Raise NoAnswer when there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise NoAnswer("git did not answer in time.")
        return left

    def __call__(self, *args, check=True, feed=None):
        """Run git and return its output as text, at most OUTPUT bytes; None if it fails and `check` is false."""
        printed = self.raw(*args, check=check, feed=feed)
        return None if printed is None else printed[:OUTPUT].decode("utf-8", "surrogateescape")

    def raw(self, *args, check=True, feed=None):
        """Run git and return its output; None if it fails and `check` is false, else NoAnswer."""
        done = self.run(args, stdout=subprocess.PIPE, input=feed or b"")
        if done.returncode:
            if check:
                raise NoAnswer(f"git says: {last_line(done.stderr)}")
            return None
        return done.stdout

    def run(self, args, **how):
        """Run git to its end. NoAnswer if it is not installed or late."""
        program = next((path for path in GITS if os.access(path, os.X_OK)), None)
        if program is None:
            raise NoAnswer("git is not installed on this host.")
        try:
            return subprocess.run(
                [program, *args],
                cwd=self.folder, env=self.env, stderr=subprocess.PIPE, timeout=self.check_time(), **how,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NoAnswer("git did not answer in time.") from None

    def line(self, *args):
        """Run git and return its output stripped; "" if it fails."""
        return (self(*args, check=False) or "").strip()


def last_line(said):
    words = said.decode("utf-8", "replace").strip().splitlines()
    return words[-1][:300] if words else "nothing"


def empty_tree(git):
    """Return the name of the empty tree, which is another one in a repository of SHA-256 than in one of SHA-1."""
    return git("hash-object", "-t", "tree", "--stdin").strip()


def push(git, question):
    """Return where a push would go and what it would send, judged by the repository's remote-tracking branches."""
    outside = alternates(git, question["root"])
    git.branch = git.line("symbolic-ref", "--short", "-q", "HEAD")
    commits_made = rehearse(git, question["steps"]) if question.get("steps") else 0
    branch = git.branch
    remote = question.get("remote") or configured_remote(git, branch)
    known = remote in git.line("remote").splitlines()
    addresses = git.line("remote", "get-url", "--push", "--all", remote).splitlines() if known else []
    refspecs = question.get("refspecs") or default_refspecs(git, remote, branch)
    left = {"left": left_out(git)} if question.get("left") else {}
    if question.get("templates"):
        left["template"] = template(git, question["templates"])
    return left | {
        "remote": remote,
        "known": known,
        "addresses": addresses[:REFS],
        "branch": branch,
        "outside": outside,
        "made": commits_made,
        "sends": [send(git, remote if known else None, spec, question) for spec in refspecs[:REFS]],
        "more": max(0, len(refspecs) - REFS),
    }


def template(git, places):
    """Return the text of the first of these files that HEAD has, whatever their case and with .md or .txt; else ""."""
    folders = sorted({f"{os.path.dirname(place)}/" for place in places if "/" in place})
    listing = ("ls-tree", "-z", "-l", "--full-tree", "HEAD")
    files = {}
    for row in "".join(git(*listing, *inside, check=False) or "" for inside in ((), folders)).split("\0"):
        entry, _, path = row.partition("\t")
        mode, _, sha, size = (entry.split() + [""] * 4)[:4]
        stem, ending = os.path.splitext(path.lower())
        if mode in ("100644", "100755") and ending in (".md", ".txt") and int(size) <= TEMPLATE_BYTES:
            files.setdefault(stem, sha)
    found = next((files[place] for place in places if place in files), "")
    text = git.raw("cat-file", "blob", found, check=False) if found else b""
    return (text or b"").decode("utf-8", "replace")


def left_out(git):
    """Return what a push of HEAD leaves out: {kind: {"count", "first"}} of the kinds of which there are any.

    changed, new, ignored: files; branches: others with commits that no remote is known to have; stashes; submodules:
    their own commits; lfs: files whose content git-lfs keeps elsewhere.
    """
    base = git.line("rev-parse", "--verify", "--quiet", "HEAD") or empty_tree(git)
    changed = git("diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv", base).split("\0")
    others = ["ls-files", "-z", "--others", "--exclude-standard"]
    listed = [row.split("\t", 1) for row in git("ls-files", "-z", "--stage").split("\0") if "\t" in row]
    names = "".join(f"{row[1]}\0" for row in listed).encode("utf-8", "surrogateescape")
    attributes = git("check-attr", "-z", "--stdin", "filter", feed=names).split("\0") if names else []
    found = {
        "changed": changed,
        "new": without_mount_point(git, git(*others).split("\0")),
        "ignored": without_mount_point(git, git(*others, "--ignored", "--directory").split("\0")),
        "branches": [name for name in branches(git) if name != git.branch and ahead(git, name)],
        "stashes": git.line("stash", "list", "--format=%gs").splitlines(),
        "submodules": [row[1] for row in listed if row[0].startswith("160000 ")],
        "lfs": [attributes[at] for at in range(0, len(attributes) - 2, 3) if attributes[at + 2] == "lfs"],
    }
    kept = {kind: [name for name in names if name] for kind, names in found.items()}
    return {kind: {"count": len(names), "first": names[:LEFT]} for kind, names in kept.items() if names}


def without_mount_point(git, names, folder=None):
    """Drop the file that a driver mounts the manifest over, and its folder if that holds nothing else."""
    path = os.path.join(folder or git.folder, MOUNT_POINT)
    try:
        if os.path.islink(path) or os.path.getsize(path):
            return names
        alone = len(os.listdir(os.path.dirname(path))) == 1
    except OSError:
        return names
    dropped = (MOUNT_POINT, ".handrail/") if alone else (MOUNT_POINT,)
    return [name for name in names if name not in dropped]


def branches(git):
    return git.line("for-each-ref", f"--count={COMMITS}", "--format=%(refname:short)", "refs/heads").splitlines()


def ahead(git, branch):
    """Return how many commits of a branch neither HEAD nor a remote is known to have."""
    return int(git("rev-list", "--count", f"refs/heads/{branch}", "--not", "HEAD", "--remotes"))


def rehearse(git, steps):
    """Perform the stage and commit steps of a command that then pushes. Return the number of commits made.

    Objects and index go to a scratch folder: the repository is read and never written.
    """
    scratch = tempfile.mkdtemp()
    os.mkdir(os.path.join(scratch, "objects"))
    objects, index = (
        os.path.join(git.folder, git.line("rev-parse", "--git-path", name)) for name in ("objects", "index")
    )
    git.env |= {
        "GIT_OBJECT_DIRECTORY": os.path.join(scratch, "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": json.dumps(objects),
        "GIT_INDEX_FILE": os.path.join(scratch, "index"),
    }
    git.env |= {f"GIT_{who}_{what}": "you" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    if os.path.exists(index):
        shutil.copyfile(index, git.env["GIT_INDEX_FILE"])
    head, made = git.line("rev-parse", "--verify", "--quiet", "HEAD"), 0
    for step in steps:
        if step["do"] == "branch":
            git.branch = step["name"]
        elif step["do"] == "add":
            stage(git, step["paths"], step["new"])
        else:
            new = commit(git, step, head)
            made, head = made + (new != head), new
        git.made = {name: head for name in ("HEAD", "@", git.branch) if name and head}
    return made


def commit(git, step, head):
    """Return the commit that `git commit` would make, or `head` if there is nothing to commit."""
    if step["paths"]:
        git.env["GIT_INDEX_FILE"] += ".only"
        git("read-tree", head or empty_tree(git))
    if step["all"] or step["paths"]:
        stage(git, step["paths"], new=False)
    tree = git.line("write-tree")
    if not step["amend"] and tree == git.line("rev-parse", "--verify", "--quiet", f"{head}^{{tree}}"):
        return head
    parents = git.line("rev-parse", f"{head}^@").split() if step["amend"] else [head] if head else []
    said = git.line("log", "-1", "--format=%s", head) if step["amend"] else "(message unknown until it runs)"
    message = step["message"] or said
    return git.line("commit-tree", tree, "-m", message, *(word for parent in parents for word in ("-p", parent)))


def stage(git, paths, new):
    """Add files to the index as they are, without the repository's filters."""
    top = git.line("rev-parse", "--show-toplevel")
    spec = ["--", *(paths or [":/"])]
    minimal = ["-c", "core.checkStat=minimal", "-c", "core.trustctime=false"]
    listed = git(*minimal, "diff-files", "-z", "--name-only", *spec)
    listed += git("ls-files", "-z", "--full-name", "--others", "--exclude-standard", *spec) if new else ""
    names = sorted(set(filter(None, without_mount_point(git, listed.split("\0"), top))))
    files = {name: os.path.join(top, name) for name in names}
    sizes = sum(os.lstat(path).st_size for path in files.values() if os.path.lexists(path))
    if len(files) > TAKEN or sizes > TAKEN_BYTES:
        raise NoAnswer("the commit before it takes in more files than are looked at here.")
    rows = b"".join(entry(git, name, path) for name, path in files.items())
    git("update-index", "-z", "--index-info", feed=rows)


def entry(git, name, path):
    """Return one record for `update-index --index-info`: the file's mode and blob, or its removal."""
    name = os.fsencode(name)
    if os.path.islink(path):
        mode, content = b"120000", os.fsencode(os.readlink(path))
    elif os.path.isfile(path):
        mode = b"100755" if os.access(path, os.X_OK) else b"100644"
        with open(path, "rb") as file:
            content = file.read(TAKEN_BYTES)
    elif os.path.lexists(path):
        return b""  # a nested repository, or not a regular file
    else:
        return b"0 " + b"0" * len(empty_tree(git)) + b"\t" + name + b"\0"
    sha = git("hash-object", "-w", "--no-filters", "--stdin", feed=content).strip().encode()
    return mode + b" " + sha + b"\t" + name + b"\0"


def alternates(git, root):
    """Return True if the repository has alternates outside the tree, which cannot be read here."""
    objects = git.line("rev-parse", "--git-path", "objects/info/alternates")
    try:
        with open(os.path.join(git.folder, objects), errors="surrogateescape") as file:
            named = [line.strip() for line in file.read(1 << 16).splitlines() if line.strip()]
    except OSError:
        return False
    base = os.path.dirname(os.path.dirname(os.path.join(git.folder, objects)))
    return any(not os.path.realpath(os.path.join(base, name)).startswith(root + "/") for name in named)


def is_partial(git):
    """Return whether the repository has packs of a partial clone, which lack objects that others have."""
    packs = os.path.join(git.folder, git.line("rev-parse", "--git-path", "objects/pack"))
    try:
        return any(name.endswith(".promisor") for name in os.listdir(packs))
    except OSError:
        return False


def configured_remote(git, branch):
    names = [f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote"]
    return next((found for name in names if (found := git.line("config", "--get", name))), "origin")


def default_refspecs(git, remote, branch):
    if specs := git.line("config", "--get-all", f"remote.{remote}.push").splitlines():
        return specs
    merge = git.line("config", "--get", f"branch.{branch}.merge")
    if merge and git.line("config", "--get", "push.default") in ("upstream", "tracking"):
        return [f"{branch}:{merge}"]
    return [branch] if branch else []


def send(git, remote, spec, question):
    """Return what one refspec would push, or {"to", "ref", "forced", "says"} if that is not known.

    {"to", "ref", "forced", "sha", "tracked", "count", "lost", "base", "commits", "files"}, with `patch` in the question
    also {"patch", "cut"}.
    """
    forced, spec = spec.startswith("+"), spec.removeprefix("+")
    source, _, target = spec.partition(":")
    target = target or source
    pushed = question.get("known") or {}
    anywhere = target == "HEAD" and bool(pushed)  # to a branch that is not named yet
    target = git.branch or target if target in ("HEAD", "@") else target.removeprefix("refs/heads/")
    told = {"to": target, "forced": forced, "ref": full_name(git, source, spec.rpartition(":")[2], target)}
    if ":" in spec and not source:
        return told | {"says": "removed there"}
    if "*" in spec or not source:
        return told | {"says": "more than one branch; unknown until it runs"}
    sha = git.made.get(source.removeprefix("refs/heads/")) or git.line(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{source}^{{commit}}"
    )
    if not sha:
        return told | {"says": f"{source} names no commit that can be read here"}
    there = git.line("rev-parse", "--verify", "--quiet", f"refs/remotes/{remote}/{target}") if remote else ""
    if target in pushed and (newer := beyond(git, [pushed[target]], [there] if there else [])):
        there = newer[0]
    known = [there] if there and not anywhere else [f"--remotes={remote}"] if remote else ["--remotes"]
    more = beyond(git, pushed.values(), known) if anywhere or not there else []
    new = ["--not", *known, *more]
    told |= {"sha": sha, "tracked": bool(there), "count": int(git("rev-list", "--count", sha, *new))}
    told["lost"] = int(git("rev-list", "--count", there, f"^{sha}")) if there else 0
    told["base"] = base = base_of(git, sha, [there, *more] if there else [], new)
    told |= {"commits": commits(git, sha, new), "files": files(git, base, sha)}
    if question.get("patch"):
        printed = git("diff", "--no-ext-diff", "--no-textconv", "--no-color", base, sha)
        told |= {"patch": printed[:PATCH_BYTES], "cut": len(printed) > PATCH_BYTES}
    return told


def full_name(git, source, named, target):
    """Return the whole name of the ref that a refspec sets; "" for one that is deleted by a short name."""
    if named.startswith("refs/"):
        return named
    if not source:
        return ""
    own = git.line("rev-parse", "--symbolic-full-name", "--verify", "--quiet", "--end-of-options", source)
    return f"refs/tags/{target}" if own.startswith("refs/tags/") else f"refs/heads/{target}"


def beyond(git, pushed, known):
    """Return those of the pushed commits that are here, and that what is `known` does not have."""
    printed = git(
        "cat-file", "--batch-check=%(objectname) %(objecttype)", feed="".join(f"{sha}\n" for sha in pushed).encode()
    )
    here = [line.split()[0] for line in printed.splitlines() if line.endswith(" commit")]
    new = set(git("rev-list", *here, "--not", *known).split()) if here else ()
    return [sha for sha in here if sha in new]


def base_of(git, sha, there, new):
    """Return the diff base: the last commit of this history that the remote is known to have, or the empty tree."""
    base = git.line("merge-base", sha, *there) if there else ""
    if not base:
        first = git("rev-list", "--topo-order", sha, *new).split()[-1:]
        base = git.line("rev-parse", "--verify", "--quiet", f"{first[0]}^") if first else sha
    return base or empty_tree(git)


def commits(git, sha, new):
    printed = git("log", "-z", f"--max-count={COMMITS}", "--no-show-signature", "--format=%H%x1f%an%x1f%s", sha, *new)
    rows = (row.split("\x1f", 2) for row in printed.split("\0") if row)
    return [{"sha": row[0], "by": row[1][:100], "subject": row[2][:200]} for row in rows if len(row) == 3]


def files(git, base, sha):
    """Return {count, additions, deletions, first: [[path, lines added, lines removed]]}; None for binary files."""
    printed = git("diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv", base, sha)
    rows = [row.split("\t", 2) for row in printed.split("\0") if row.count("\t") >= 2]
    count = [[int(n) if n.isdigit() else None for n in row[:2]] for row in rows]
    return {
        "count": len(rows),
        "additions": sum(added or 0 for added, _ in count),
        "deletions": sum(removed or 0 for _, removed in count),
        "first": [[row[2], *count[n]] for n, row in enumerate(rows[:FILES])],
    }


def clean(git, question):
    """Return the paths that `git clean` would remove, relative to the tree, and their count."""
    flags = question["flags"]
    args = ["ls-files", "-z", "--others", "--directory"]
    args += [] if "x" in flags else ["--exclude-standard"]
    args += ["--ignored"] if "X" in flags else []
    found = [path for path in git(*args, "--", *question["paths"]).split("\0") if path]
    found = without_mount_point(git, found)
    kept = [path for path in found if "d" in flags or not path.endswith("/")]
    prefix = os.path.relpath(git.folder, question["root"])
    return {"paths": [os.path.normpath(os.path.join(prefix, path)) for path in kept[:PATHS]], "count": len(kept)}


def uncommitted(git, question):
    """Return a digest of what differs from HEAD, staged or not, and of new files that git does not ignore."""
    digest = hashlib.sha256()
    base = git.line("rev-parse", "--verify", "--quiet", "HEAD") or empty_tree(git)
    digest.update(git.raw("diff", "--binary", "--no-ext-diff", "--no-textconv", "--cached", base))
    digest.update(git.raw("diff", "--binary", "--no-ext-diff", "--no-textconv", base))
    new = git.raw("ls-files", "-z", "--others", "--exclude-standard")
    digest.update(new)
    for name in sorted(filter(None, new.split(b"\0"))):
        path = os.path.join(os.fsencode(git.folder), name)
        if os.path.islink(path):
            digest.update(os.readlink(path))
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    git.check_time()
                    digest.update(piece)
    return {"sha256": digest.hexdigest()}


def since(git, question):
    """Return the commits of `tip`, by default of HEAD, that are not reachable from `base`; at most COMMITS of them."""
    tip = git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{question.get('tip', 'HEAD')}^{{commit}}")
    base = git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{question['base']}^{{commit}}")
    if not base:
        raise NoAnswer("That snapshot's commit can't be read.")
    if not tip:
        raise NoAnswer("The commit can't be read here.")
    return {"commits": commits(git, tip, ["--not", base])}


def bundle(git, question):
    """Write a bundle of refs to standard output."""
    if not git.line("rev-parse", "--verify", "--quiet", "HEAD"):
        raise NoAnswer("Nothing is committed yet.")
    done = git.run(["bundle", "create", "--quiet", "-", *question["refs"]], stdout=None, input=b"")
    if done.returncode:
        if alternates(git, question["root"]):
            raise NoAnswer(BORROWS)
        raise NoAnswer(f"git says: {last_line(done.stderr)}")


ANSWERS = {"push": push, "clean": clean, "uncommitted": uncommitted, "since": since}


def main():
    question = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))
    folder = os.path.join(question["root"], question.get("folder") or ".")
    git = Git(os.path.normpath(folder), question["seconds"], question.get("own", False), question.get("lfs", ""))
    try:
        if not os.path.isdir(git.folder):
            raise NoAnswer("The folder does not exist.")
        if git("rev-parse", "--git-dir", check=False) is None:
            raise NoAnswer(ELSEWHERE if os.path.isfile(os.path.join(git.folder, ".git")) else NONE)
        if question["what"] == "bundle":
            bundle(git, question)
            return
        answer = ANSWERS[question["what"]](git, question)
    except NoAnswer as error:
        told = PARTIAL if str(error).startswith("git says: ") and is_partial(git) else str(error)
        if question["what"] == "bundle":
            sys.exit(told)
        answer = {"error": told}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()

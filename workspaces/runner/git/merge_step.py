"""Fetch from a repository beside the workspace, and merge or rebase onto it, as `git pull` does.

Run by `python3 -I -S -c` in the sandbox of runner/git/merge.py, with the request as a JSON argument:

{"do": "fetch", "origin", "remote", "ref", "sha", "asked", "how", "rehearse", …} → {"head", "branch", "coming", "ref",
    "since", "conflicts", "changed"}: `origin/*` and tags follow the source; nothing else changes
{"do": "merge" | "rebase", "remote", "coming", "ref", "since", …} → {"head", "conflicts"}: HEAD, index and files

"lfs": the source of `provisioning/git/lfs_filter.py` where files of git-lfs have their content. The answer is a JSON
object, {"error": sentence[, "paths"]} on failure; what that leaves is for the caller to undo. Standard library only.
"""

import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

SOURCE = "/source"
COMING = "refs/handrail/coming"  # names the commit in the source, also where no branch or tag does
CONFLICTS, RANGES, PATHS = 1000, 50, 1000
MEMORY = 4 << 30
READ = 16 << 20  # bytes of a file that are searched for conflict markers
GITS = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git")  # never by a PATH that a workspace can change
GIT = next((path for path in GITS if os.access(path, os.X_OK)), GITS[0])
# What is read of the settings of the repository and of the home: how files are stored and merged, who commits, and what
# a branch follows. Nothing of it runs a program or leads elsewhere. What they include from other files is not read.
READ_SETTINGS = re.compile(
    r"core\.(autocrlf|commentchar|eol|filemode|ignorecase|logallrefupdates|precomposeunicode|repositoryformatversion"
    r"|safecrlf|sparsecheckout|sparsecheckoutcone|symlinks)"
    r"|extensions\.(objectformat|refstorage|worktreeconfig)"
    r"|(user|author|committer)\.(name|email)"
    r"|merge\.(conflictstyle|directoryrenames|log|renamelimit|renames|renormalize|suppressdest)"
    r"|diff\.(algorithm|renamelimit|renames)"
    r"|fetch\.prune|remote\.origin\.(fetch|prune|tagopt|url)|branch\..*\.(merge|remote)",
    re.DOTALL,
)
SETTINGS_BYTES = 1 << 20
# The repository has these in one place for all of its worktrees. Git finds them from a folder with settings of our own.
SHARED = ("HEAD", "info", "lfs", "logs", "objects", "packed-refs", "refs", "reftable", "shallow", "worktrees")
# Run no program, whatever is in the tree; do nothing that `git pull` does not do by default.
SETTINGS = {
    "commit.gpgSign": "false",
    "core.alternateRefsCommand": ":",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.quotePath": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "gpg.program": "/bin/false",
    "gpg.ssh.program": "/bin/false",
    "gpg.x509.program": "/bin/false",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.verifySignatures": "false",
    "rebase.autoSquash": "false",
    "rebase.autoStash": "false",
    "rebase.backend": "merge",
    "rebase.instructionFormat": "",
    "rebase.updateRefs": "false",
    "rerere.enabled": "false",
    "safe.directory": "*",
    "submodule.recurse": "false",
}
UPLOAD_PACK = f"env HOME=/nonexistent GIT_CONFIG_GLOBAL=/dev/null {GIT} upload-pack"
MARKER = re.compile(rb"^(?:(<{7,})|(>{7,}))(?: |\r?$)", re.MULTILINE)


class Failed(Exception):
    def __init__(self, reason, paths=()):
        super().__init__(reason)
        self.paths = list(paths)


class Git:
    def __init__(self, request):
        self.folder, self.until = request["root"], time.monotonic() + request["seconds"]
        self.own = os.path.join(self.folder, ".git")
        scratch, home = request.get("scratch", "/tmp"), request.get("home", "/home/agent")
        self.shared = os.path.join(scratch, "repository")
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": home,
            "LANG": "C.UTF-8",
            "GIT_ALLOW_PROTOCOL": "file",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": f"{scratch}/gitconfig-of-home",
            "GIT_CONFIG_SYSTEM": f"{scratch}/gitconfig",
            "GIT_EDITOR": ":",
            "GIT_GRAFT_FILE": "/dev/null",
            "GIT_NO_LAZY_FETCH": "1",  # a partial clone would fetch what it lacks, by a program of its choice
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_REFLOG_ACTION": "pull",
            "GIT_SEQUENCE_EDITOR": ":",
            "GIT_TERMINAL_PROMPT": "0",
        }
        self._write_settings(scratch, home, request)
        self.repository = {"GIT_DIR": self.own, "GIT_COMMON_DIR": self.shared, "GIT_WORK_TREE": self.folder}
        settings = dict(SETTINGS)
        if lfs := request.get("lfs"):  # its files have their content, of which git sees the pointers
            program = [sys.executable, "-I", "-S", "-c", lfs]
            settings["filter.lfs.clean"] = shlex.join([*program, "clean"])
            settings["filter.lfs.smudge"] = shlex.join([*program, "smudge", "--from", SOURCE])
            # Not `process`: while that is set, even to nothing, git calls neither.
            settings["filter.lfs.required"] = "false"
        self._set(settings)

    def _write_settings(self, scratch, home, request):
        """Write all the settings that git reads in this step, and make the folder in which it finds the repository."""
        name, email = request["identity"]
        write(f"{scratch}/gitignore", request.get("ignored", ""))
        system = [("user.name", name), ("user.email", email), ("core.excludesFile", f"{scratch}/gitignore")]
        write(f"{scratch}/gitconfig", as_file([*system, ("safe.directory", "*")]))
        homes = (f"{home}/.config/git/config", f"{home}/.gitconfig")
        write(self.env["GIT_CONFIG_GLOBAL"], "".join(as_file(self._read_settings(path)) for path in homes))
        own = self._read_settings(f"{self.own}/config")
        if any(key == "extensions.worktreeconfig" and value in ("", "true") for key, value in own):
            own += self._read_settings(f"{self.own}/config.worktree")
        shutil.rmtree(self.shared, ignore_errors=True)
        os.mkdir(self.shared)
        own = [(key, value) for key, value in own if key != "extensions.worktreeconfig"]
        write(f"{self.shared}/config", as_file([*own, ("core.bare", "false")]))
        for name in ("logs", "lfs") if request.get("lfs") else ("logs",):
            with contextlib.suppress(OSError):
                os.makedirs(f"{self.own}/{name}", exist_ok=True)
        for name in SHARED:
            os.symlink(f"{self.own}/{name}", f"{self.shared}/{name}")

    def _read_settings(self, path):
        """Return [(key, value)] of those settings of a file that may be read; git itself only parses the file."""
        if not os.path.isfile(path):
            return []
        if os.path.getsize(path) > SETTINGS_BYTES:
            raise Failed("The settings of the repository, or of the home, are too large to be read.")
        printed = self("config", "--file", path, "--no-includes", "--null", "--list", at="/")
        rows = [row.partition("\n")[::2] if "\n" in row else (row, "true") for row in printed.split("\0") if row]
        return [(key, value) for key, value in rows if READ_SETTINGS.fullmatch(key)]

    def _set(self, settings):
        self.env["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (name, value) in enumerate(settings.items()):
            self.env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}

    def run(self, *args, at=None):
        """Run git to its end, in this repository or `at` another folder; return (exit status, output, what it said)."""
        left = self.until - time.monotonic()
        env = self.env if at else self.env | self.repository
        try:
            done = subprocess.run(
                [GIT, *args],
                cwd=at or self.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=max(left, 0.01),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed("git did not end in time.") from None
        except FileNotFoundError:
            raise Failed("git is not installed on this host.") from None
        return done.returncode, os.fsdecode(done.stdout), done.stderr.decode("utf-8", "replace")

    def __call__(self, *args, at=None):
        status, printed, said = self.run(*args, at=at)
        if status:
            raise Failed(f"git says: {gist(said)}")
        return printed

    def line(self, *args, at=None):
        """Return the output stripped; "" if git fails."""
        status, printed, _ = self.run(*args, at=at)
        return "" if status else printed.strip()

    def names(self, *args):
        return [name for name in self(*args).split("\0") if name]

    def keep_shallow(self):
        """Do to the repository's list of where its history is cut what git did to the link that stands for it."""
        if not os.path.lexists(f"{self.shared}/shallow"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.own}/shallow")

    def has(self, *names):
        """Return whether the git directory has one of these."""
        return any(os.path.exists(os.path.join(self.folder, self.line("rev-parse", "--git-path", n))) for n in names)


def write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def as_file(settings):
    """Return settings in the syntax of git's files."""
    text = ""
    for key, value in settings:
        section, _, rest = key.partition(".")
        below, _, name = rest.rpartition(".")
        heading = f"{section} {quoted(below)}" if below else section
        text += f"[{heading}]\n\t{name} = {quoted(value)}\n"
    return text


def quoted(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def gist(said):
    """Return the sentence of git's that says why, without hints."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "CONFLICT"))]
    return (told or lines[-1:] or ["nothing"])[0].removeprefix("fatal: ").removeprefix("error: ")[:300]


def fetch(git, request):
    head = git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = git.line("symbolic-ref", "--quiet", "HEAD").removeprefix("refs/heads/")
    ref, coming = chosen(git, request, branch)
    since = ""
    if request["how"] == "rebase" and ref.startswith("refs/heads/") and request["origin"]:
        since = git.line("merge-base", "--fork-point", f"refs/remotes/origin/{ref.removeprefix('refs/heads/')}", "HEAD")
    specs = git.line("config", "--get-all", "remote.origin.fetch").splitlines() if request["origin"] else []
    prune = any(git.line("config", "--type=bool", name) == "true" for name in ("fetch.prune", "remote.origin.prune"))
    options = ["--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow"]
    options += ["--prune"] if specs and prune else []
    what = (f"--upload-pack={UPLOAD_PACK}", request.get("source", SOURCE), *specs, COMING)
    status, _, said = git.run("fetch", *options, *what)
    if "cannot lock ref" in said and specs and all(":refs/remotes/" in spec for spec in specs):
        # A branch went, and there is one below its name now. Git makes it only where the old one is gone.
        status, _, said = git.run("fetch", *options, "--prune", *what)
    if status:
        raise Failed(f"git says: {gist(said)}")
    git.keep_shallow()
    if lfs := request.get("lfs"):
        bring_contents(git, lfs, request.get("source", SOURCE))
    told = {"head": head, "branch": branch, "coming": coming, "ref": ref, "since": since}
    return told | (rehearsed(git, head, coming) if request["rehearse"] else {"conflicts": [], "changed": []})


def bring_contents(git, lfs, source):
    """Keep the contents of git-lfs's files that came, also for a merge that somebody makes later."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", lfs, "bring", source],
        cwd=git.folder, env=git.env | git.repository, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        raise Failed(
            f"The contents of files of git-lfs could not be kept: {gist(done.stderr.decode(errors='replace'))}"
        )


def chosen(git, request, branch):
    """Return (ref, commit) of what is merged: what was asked for, else the upstream of the branch as the source has it.

    Without either it is the source's own HEAD.
    """
    if not request["asked"] and request["origin"] and git.line("config", f"branch.{branch}.remote") == "origin":
        ref = git.line("config", f"branch.{branch}.merge")
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if ref and (sha := git.line(*asked, at=request.get("source", SOURCE))):
            return ref, sha
    return request["ref"], request["sha"]


def rehearsed(git, head, coming):
    """Return {conflicts, changed}: what a merge would leave unmerged, and which paths it would change."""
    if not head:
        return {"conflicts": [], "changed": git.names("ls-tree", "-r", "-z", "--name-only", "--full-tree", coming)}
    status, printed, said = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, coming)
    if status not in (0, 1):
        raise Failed(f"git says: {gist(said)}")
    tree, *paths = [part.strip("\n") for part in printed.split("\0") if part.strip("\n")]
    changed = git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, tree)
    unmerged_ones = list(dict.fromkeys(paths))[:CONFLICTS] if status else []
    conflicts = [conflict_fields(path, blob(git, tree, path)) for path in unmerged_ones]
    return {"conflicts": conflicts, "changed": changed}


def blob(git, tree, path):
    status, printed, _ = git.run("cat-file", "blob", f"{tree}:{path}")
    return b"" if status else os.fsencode(printed)[:READ]


def conflict_fields(path, content):
    """Return {path, lines} of a conflict; `lines` are the [first, last] of each part that git marked in the file."""
    lines, first, number, counted = [], 0, 1, 0
    for found in MARKER.finditer(content):
        number += content.count(b"\n", counted, found.start())
        counted = found.start()
        if found[1]:
            first = number
        elif first:
            lines.append([first, number])
            first = 0
        if len(lines) == RANGES:
            break
    return {"path": path, "lines": lines}


def merge(git, request):
    """Merge what was fetched, as `git pull --no-rebase` does."""
    if git.has("MERGE_HEAD"):
        raise Failed("A merge is still in progress (MERGE_HEAD exists). Commit it, or run `git merge --abort`, first.")
    write_fetch_head(git, request)
    options = ("--quiet", "--no-edit", "--no-stat", "--ff", "--no-squash", "--commit", "--no-gpg-sign")
    status, _, said = git.run("merge", *options, "FETCH_HEAD")
    conflicts = unmerged(git) if status and git.has("MERGE_HEAD") else []
    if status and not conflicts:
        raise Failed(f"git says: {gist(said)}", overwritten(git, said))
    return {"head": git.line("rev-parse", "HEAD"), "conflicts": conflicts}


def rebase(git, request):
    """Put the commits of HEAD that the source lacks onto what was fetched, as `git pull --rebase` does."""
    stopped, coming = ("rebase-merge", "rebase-apply"), request["coming"]
    if git.has(*stopped):
        raise Failed("A rebase is still in progress. Run `git rebase --continue` or `git rebase --abort` first.")
    head = git.line("rev-parse", "--verify", "--quiet", "HEAD")
    git.run("update-index", "-q", "--refresh")
    quiet = ("-z", "--name-only", "--ignore-submodules")
    if dirty := head and git.names("diff-index", *quiet, "HEAD"):
        raise Failed("There are uncommitted changes, on which git does not rebase. Commit them first.", dirty[:PATHS])
    if not head or git.line("merge-base", head, coming) == head:
        return merge(git, request)
    write_fetch_head(git, request)
    since = request["since"]
    if not since or not git.run("merge-base", "--is-ancestor", since, coming)[0]:
        since = coming
    status, _, said = git.run("rebase", "--quiet", "--no-stat", "--onto", coming, since)
    conflicts = unmerged(git) if status and git.has(*stopped) else []
    if status and not conflicts:
        raise Failed(f"git says: {gist(said)}", overwritten(git, said))
    return {"head": git.line("rev-parse", "HEAD"), "conflicts": conflicts}


def write_fetch_head(git, request):
    """Write FETCH_HEAD as a fetch from the remote would, from which git makes the message of the merge."""
    url = git.line("config", "remote.origin.url") if request["origin"] else ""
    url = re.sub(r"//[^/@]*@", "//", url or request["remote"]).rstrip("/")
    url = url.removesuffix(".git") if len(url) > 5 else url
    kinds = {"refs/heads/": "branch ", "refs/tags/": "tag "}
    ref = request["ref"]
    found = next((prefix for prefix in kinds if ref.startswith(prefix)), "")
    note = f"{kinds.get(found, '')}'{ref.removeprefix(found) or request['coming']}' of {url}"
    path = os.path.join(git.folder, git.line("rev-parse", "--git-path", "FETCH_HEAD"))
    with open(path, "w", errors="surrogateescape") as file:
        file.write(f"{request['coming']}\t\t{note}\n")


def unmerged(git):
    """Return {path, lines} of each path that git left unmerged."""
    rows = git.names("ls-files", "-u", "-z", "--full-name", ":/")
    paths = dict.fromkeys(row.split("\t", 1)[1] for row in rows)
    return [conflict_fields(path, read(git, path)) for path in list(paths)[:CONFLICTS]]


def read(git, path):
    at = os.path.join(git.folder, path)
    if os.path.islink(at) or not os.path.isfile(at):
        return b""
    with open(at, "rb") as file:
        return file.read(READ)


def overwritten(git, said):
    """Return the paths that git names as being in its way; all staged ones, if it is those."""
    named = [line[1:] for line in said.splitlines() if line.startswith("\t")]
    if not named and "local changes" in said:
        named = git.names("diff-index", "-z", "--name-only", "--cached", "HEAD")
    return named[:PATHS]


STEPS = {"fetch": fetch, "merge": merge, "rebase": rebase}


def main():
    request = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    try:
        own = os.path.join(request["root"], ".git")
        if not os.path.isdir(own) or os.path.lexists(os.path.join(own, "commondir")):
            raise Failed("The repository is not in the workspace's own folder; Handrail does not merge into it.")
        git = Git(request)
        git("rev-parse", "--git-dir")
        answer = STEPS[request["do"]](git, request)
    except Failed as error:
        answer = {"error": str(error), "paths": error.paths}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()

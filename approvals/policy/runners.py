"""Programs that run text or files which they are given: interpreters, package managers, and those around others."""

import itertools
import re

from .fetchers import SOMEWHERE
from .programs.packages import SOURCES
from .rules import WRAPPERS
from .shell_words import names
from .web import host_of

# Programs around another one, which is searched for among their words.
AROUND = WRAPPERS | names(
    """
    docker podman nerdctl kubectl oc lxc incus nsenter busybox toybox find fd fdfind parallel tmux screen expect entr
    uv poetry pipenv pdm hatch rye pixi conda mamba micromamba npm pnpm yarn bun npx bunx pnpx bundle mise asdf direnv
    nix nix-shell devbox distrobox toolbox proot firejail bwrap fakeroot unbuffer chronic ts ld.so at batch cmd arch
    systemd-nspawn gosu su-exec pkexec run0 please catchsegv gdb valgrind perf hyperfine dotenv dotenvx op vault
    aws-vault
    """
)
AROUND -= {"source", ".", "eval"}
# Interpreters: {name: options whose value is program text}; `-` and no operand at all read the program from a pipe.
INLINE = {
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3", "ipython"), "-c"),
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node", "bun", "qjs", "coffee"), "-e -p -pe --eval --print"),
    "deno": "eval", "ruby": "-e", "jruby": "-e", "irb": "-e", "perl": "-e -E",
    "php": "-r", "lua": "-e", "luajit": "-e", "Rscript": "-e", "R": "-e", "julia": "-e -E", "osascript": "-e",
    "groovy": "-e", "elixir": "-e", "scala": "-e", "tclsh": "", "wish": "", "swift": "-e", "clojure": "-e", "bb": "-e",
    "guile": "-c", "racket": "-e", "sbcl": "--eval", "ghci": "-e", "runghc": "", "octave": "--eval", "jshell": "",
    "pwsh": "-c -Command -command -EncodedCommand -ec", "powershell": "-c -Command -command -EncodedCommand -ec",
    "powershell.exe": "-c -Command -command -EncodedCommand -ec",
    "raku": "-e", "nim": "", "crystal": "eval",
    "awk": "", "gawk": "-e --source", "mawk": "", "nawk": "", "kotlin": "-e", "dart": "", "psysh": "", "expect": "-c",
    "m4": "", "gdb": "-ex", "java": "", "jbang": "",
}  # fmt: skip
INLINE = {name: names(text) for name, text in INLINE.items()}
AWKS = names("awk gawk mawk nawk")
VALUES = names("-W -X -I -C -L -r --require --import --loader -o -O --rcfile --init-file -F -v -W -cp -classpath -f")
# Options whose value is a file that is run; for programs that only run what such an option names, all of theirs.
FILE_FLAGS = names("-f --file --makefile -File -file --script --load -l -x -S -u --rcfile --init-file -r --require -i")
RUNS_NAMED = names("make gmake just task java jbang ansible-playbook vim nvim emacs crontab at batch insmod")
INSTALLERS = names(
    "dpkg rpm apt apt-get dnf yum zypper pacman apk brew snap flatpak installer msiexec pip pip3 pipx uv npm pnpm yarn"
    " bun gem cargo go code conda gdebi"
)
SYSTEM_PACKAGES = names("dpkg rpm apt apt-get dnf yum zypper pacman apk")  # their -i and -f name no source
RUNNERS = names("npx bunx pnpx uvx deno jbang")
RUN_VERBS = names("exec x dlx run tool")
# Programs that carry out statements or manifests that they are given, with these verbs; none: whatever they are asked.
APPLIERS = {
    **dict.fromkeys(
        names("psql mysql mariadb sqlite3 duckdb mongosh mongo redis-cli cqlsh sqlcmd mysqlsh"), frozenset()
    ),
    **dict.fromkeys(names("kubectl oc"), names("apply create replace")),
    "helm": names("install upgrade"),
}
APPLIERS |= {"ansible-pull": frozenset(), **dict.fromkeys(names("terraform tofu"), names("init"))}
MANIFEST_FLAGS = names("-f --filename -k --kustomize --values --repo -from-module --from-module")
MAKES = names("make gmake just task")
ARCHIVE = re.compile(r"\.(?:whl|tgz|gz|xz|bz2|zip|deb|rpm|apk|pkg|msi|jar|gem|crate|vsix|snap|flatpak)$")
DIRECT = re.compile(r"(?:[\w.-]+\s*@\s*)?(https?://\S+)")
REPOSITORY = re.compile(r"(?:[\w.@/-]+@)?(?:git\+\w+://|git@|git://|ssh://|(?:github|gitlab|bitbucket|gist):)\S+")
# Options whose value is where a package manager looks for what it installs, not what it installs.
SOURCE_FLAGS = SOURCES | names("--proxy --trusted-host -f --find-links --cache --prefix -C --directory --cwd")
INPUT = names("- /dev/stdin /dev/fd/0 /proc/self/fd/0")
# Programs that say nothing of the text that they are given.
MEASURES = names("wc cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum true test [ [[ file")
UNPACKERS = names(
    "tar bsdtar gtar unzip 7z 7za 7zr unar cpio gunzip gzip unxz xz bunzip2 bzip2 unzstd zstd ar dpkg-deb"
)
UNPACKERS |= {"unrar", "jar", "pax"}
FOLDER_FLAGS = names("-C --directory -d --output-directory -o")
TAKERS = names("cp mv install ln rsync ditto dd sponge gcp gmv ginstall")


def applies(name, texts):
    """Return True if a program carries out the statements or manifests that it is given."""
    verbs = APPLIERS.get(name)
    return verbs is not None and (not verbs or not verbs.isdisjoint(texts))


def applied_address(name, texts):
    """Return the host of a manifest, chart, module or playbook that is named by its address; "" if none is."""
    if name == "ansible-pull":
        return next((host_of(text) for text in texts if DIRECT.fullmatch(text)), "") or SOMEWHERE
    for before, text in itertools.pairwise(["", *texts]):
        flag, equals, value = text.partition("=") if text.startswith("-") else (before, "", text)
        operand = name == "helm" and not (before.startswith("-") or equals)
        if (operand or flag in MANIFEST_FLAGS) and DIRECT.fullmatch(value):
            return host_of(value) or SOMEWHERE
    return ""


def from_address(name, texts):
    """Return the host of a package or script that is fetched from an address and run, not from a registry."""
    operands = [text for text in texts if not text.startswith("-")]
    runs = name in RUNNERS or bool(RUN_VERBS & set(operands[:2]))
    for before, text in zip(["", *texts], texts, strict=False):
        value = text.partition("=")[2] if text.startswith("-") else text
        flag = text.partition("=")[0] if text.startswith("-") else before
        if (flag in SOURCE_FLAGS and name not in SYSTEM_PACKAGES) or not value:
            continue
        if match := DIRECT.fullmatch(value):
            return host_of(match[1].split("#")[0]) or SOMEWHERE
        if runs and REPOSITORY.fullmatch(value):
            return SOMEWHERE
    return ""

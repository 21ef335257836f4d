"""Programs that run text or files which they are given: interpreters, package managers, and those around others."""

import itertools
import re

from .fetchers import SOMEWHERE
from .programs.packages import FLAGS, SOURCES
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
RUNS_NAMED = names(
    "make gmake just task java jbang ansible-playbook vim nvim emacs crontab at batch insmod wasmtime wasmer wine mono"
)
INSTALLERS = names(
    "dpkg rpm apt apt-get dnf yum zypper pacman apk brew snap flatpak installer msiexec pip pip3 pipx uv npm pnpm yarn"
    " bun gem cargo go code conda gdebi poetry pdm pipenv rye pixi"
)
SYSTEM_PACKAGES = names("dpkg rpm apt apt-get dnf yum zypper pacman apk")  # their -i and -f name no source
RUNNERS = names("npx bunx pnpx uvx deno jbang nix nix-shell nix-env nix-build")
RUN_VERBS = names("exec x dlx run tool")
INSTALL_VERBS = names("install i add require get sync wheel download inject binstall")
NODE_PACKAGES = names("npm pnpm yarn bun npx bunx pnpx")
ENVIRONMENTS = names("conda mamba micromamba")  # whose -f names a list of packages
SHORTHAND = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+(?:#\S+)?")  # npm's name for a repository of GitHub
MODULE = re.compile(r"([\w-][\w.-]*\.[\w-]+)/[^@\s]+@\S+")
HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}://|^)(?:[^/@\s]{0,100}@)?([A-Za-z0-9-][A-Za-z0-9.-]*\.[A-Za-z0-9-]+(?::\d+)?)(?=[/:?#]|$)"
)
CODE_HOSTS = {"github": "github.com", "gitlab": "gitlab.com", "bitbucket": "bitbucket.org", "gist": "gist.github.com"}
# Programs that start a shell where no command is named.
OPENS_SHELL = names("su chroot unshare nsenter newgrp sg")
SSH_VALUED = re.compile(r"-[A-Za-z0-9]*[BbcDEeFIiJLlmOopQRSWw]")
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
# Database shells that carry out what they read, and the options that name other statements instead.
STATEMENTS = {
    "psql": names("-c --command -f --file -l --list"),
    **dict.fromkeys(("mysql", "mariadb"), names("-e --execute")),
    **dict.fromkeys(("sqlite3",), frozenset()),
    "duckdb": names("-c -s -f"),
    **dict.fromkeys(("mongosh", "mongo"), names("--eval -f --file")),
    "redis-cli": names("-x -X --eval"),
    "cqlsh": names("-e --execute -f --file"),
    "sqlcmd": names("-Q -q -i"),
    "mysqlsh": names("-e --execute -f --file"),
}
SHORT = {"psql": ("-c", "-f"), "mysql": ("-e",), "mariadb": ("-e",)}  # with the value in the same word
OPERANDS = {"sqlite3": 1, "duckdb": 1, "redis-cli": 0}  # with more of them the statements are among the words
HOST_OPTIONS = names("-h -p -s -a -u -n -r -i -t --user --pass --cacert --cert --key --sni --tls-ciphers -d -D -c")
ABOUT_ITSELF = names("--version -V --help -? --usage -version -help")
REMOTE_MANIFEST = re.compile(
    r"(?:[\w.-]+\s*@\s*)?(?:https?|oci|git|ssh|s3|gs)://\S+|git@\S+|(?:git|hg|s3|gcs)::\S+"
    r"|(?:github|gitlab|bitbucket)\.(?:com|org)/\S+"
)
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


def applies_input(name, texts):
    """Return True if the statements or manifests come from the standard input, and not only data for them."""
    if any(text in INPUT or text.removeprefix("-f").partition("=")[2] in INPUT or text == "-f-" for text in texts):
        return True
    options = STATEMENTS.get(name)
    if options is None or ABOUT_ITSELF & set(texts):
        return False
    if any(text.partition("=")[0] in options or text.startswith(SHORT.get(name, "\0")) for text in texts):
        return False
    return len(_plain(name, texts)) <= OPERANDS.get(name, len(texts))


def applied_words(name, words):
    """Return the words that are statements or manifests, or name a file of them."""
    if name != "redis-cli":
        return words
    return [word for flag, word in itertools.pairwise(words) if flag.text == "--eval"]


def _plain(name, texts):
    valued = HOST_OPTIONS if name == "redis-cli" else frozenset()
    return [text for before, text in itertools.pairwise(["", *texts]) if text[:1] != "-" and before not in valued]


def opens_shell(name, texts):
    """Return True if a program without a command starts a shell, which obeys the standard input."""
    if name == "ssh":
        before = ["", *texts]
        operands = [t for flag, t in itertools.pairwise(before) if t[:1] != "-" and not SSH_VALUED.fullmatch(flag)]
        return len(operands) == 1 and not {"-N", "-W"} & set(texts)
    if name == "sudo":
        return any(re.fullmatch(r"-[A-Za-z]*[si]|--shell|--login", text) for text in texts)
    return name in OPENS_SHELL and "-c" not in texts


def applied_address(name, texts):
    """Return the host of a manifest, chart, module or playbook that is named by its address; "" if none is."""
    if name == "ansible-pull":
        return next((host_of(text) for text in texts if DIRECT.fullmatch(text)), "") or SOMEWHERE
    for before, text in itertools.pairwise(["", *texts]):
        flag, equals, value = text.partition("=") if text.startswith("-") else (before, "", text)
        operand = name == "helm" and not (before.startswith("-") or equals)
        if (operand or flag in MANIFEST_FLAGS) and REMOTE_MANIFEST.fullmatch(value):
            return _host(value)
    return ""


def from_address(name, texts):
    """Return the host of a package or script that is fetched from an address and run, not from a registry."""
    operands = [text for text in texts if not text.startswith("-")]
    if name == "go":
        module = next((m for text in operands[1:] if (m := MODULE.fullmatch(text))), None)
        return module[1] if module and operands[0] == "run" else ""
    runs = name in RUNNERS or bool(RUN_VERBS & set(operands[:2]))
    installs = runs or (name in INSTALLERS - SYSTEM_PACKAGES and not INSTALL_VERBS.isdisjoint(operands[:3]))
    repositories = _shorthands(name, operands) if installs and name in NODE_PACKAGES else ()
    for before, text in itertools.pairwise(["", *texts]):
        value = text.partition("=")[2] if text.startswith("-") else text
        flag = text.partition("=")[0] if text.startswith("-") else before
        from_git = flag == "--git" and installs
        environment = name in ENVIRONMENTS and flag in ("-f", "--file")
        if (flag in SOURCE_FLAGS and not environment and name not in SYSTEM_PACKAGES and not from_git) or not value:
            continue
        if from_git or DIRECT.fullmatch(value) or (installs and REPOSITORY.fullmatch(value)):
            return _host(value)
        if value in repositories and (before[:1] != "-" or (before in FLAGS and before != "-w")):
            return CODE_HOSTS["github"]
    return ""


def _shorthands(name, operands):
    """Return the operands that npm and the like take for a repository of GitHub: `owner/name`."""
    at = next((at for at, text in enumerate(operands) if text in INSTALL_VERBS | RUN_VERBS), -1)
    if operands[at : at + 1] == ["run"] and name not in RUNNERS:
        return []  # a script of the project, whatever its name
    if name in RUNNERS:
        packages = operands[:1]
    else:
        packages = operands[at + 1 :] if at >= 0 and operands[at] in INSTALL_VERBS else operands[at + 1 : at + 2]
    return [text for text in packages if SHORTHAND.fullmatch(text)]


def _host(address):
    """Return the host of an address in one of the forms of package managers; SOMEWHERE if it is not certain."""
    address = address.partition("@ ")[2].strip() or address
    for form, host in CODE_HOSTS.items():
        if re.match(rf"(?:[\w.@/-]+@)?{form}[:./]", address):
            return host
    plain = re.sub(r"^(?:[\w.-]+\s*@\s*)?(?:git|hg|svn|bzr)(?:\+|::)", "", address)
    if match := HOST.search(plain):
        return host_of(f"https://{match[1]}") or SOMEWHERE
    return SOMEWHERE

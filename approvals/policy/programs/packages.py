"""What a package manager is asked to do: which of its words are packages, files, sources or options."""

import re
from dataclasses import dataclass, field

from workspaces.egress.registries import REGISTRIES

from .. import impacts
from ..shell_words import OPAQUE, names

RUNNERS = ("npx", "bunx", "uvx")
ADD = names("install i add ci get require sync update upgrade up isntall tap reinstall dist-upgrade full-upgrade")
REMOVE = names("uninstall remove rm un unlink purge autoremove")
PREFIXES = {"uv": ("pip", "tool"), "dotnet": ("add",), "yarn": ("global",), "composer": ("global",), "pip": ()}
RUN = {"npm": ("exec", "x"), "pnpm": ("dlx",), "yarn": ("dlx",), "bun": ("x",), "pipx": ("run",), "uv": ("run",)}
LISTS = names("-r --requirement --requirements --group -c --constraint")
EDITABLE = names("-e --editable")
SOURCES = names(
    "-i --index-url --extra-index-url -f --find-links --registry -s --source --git --index --path --default-index"
    " --repo"
)
VERSIONS = names("-v --version --vers --tag --rev --branch")
VALUED = {
    "npm": "--prefix -C -w --workspace --registry --tag --omit --include --loglevel --cache --userconfig --access",
    "pip": "-r --requirement -c --constraint -e --editable -t --target --prefix --root -i --index-url --extra-index-url"
    " -f --find-links --python --platform --python-version --timeout --retries --log --cache-dir --trusted-host"
    " --only-binary --no-binary --config-settings --progress-bar --proxy --cert --upgrade-strategy",
    "uv": "-r --requirements --requirement -c --constraint -e --editable -t --target --prefix -i --index-url"
    " --extra-index-url -f --find-links --python -p --extra --group --only-group --package --index --default-index"
    " --optional --directory --project --tag --rev --branch --no-group --config-file --cache-dir",
    "cargo": "-F --features --git --path --branch --tag --rev --version --vers --registry --index --root --target -p"
    " --package --rename --manifest-path --target-dir --profile --bin --example -j --jobs --color -C -Z",
    "gem": "-v --version -s --source -i --install-dir -n --bindir -P --trust-policy --platform",
    "apt": "-t --target-release -o --option -c --config-file -a",
    "go": "-C -modfile -tags -ldflags -gcflags -mod -overlay",
    "brew": "--appdir --cc",
    "conda": "-n --name -p --prefix -c --channel --file",
    "poetry": "-G --group -E --extras --source --python --platform -C --directory -P --project",
    "apk": "-t --virtual -X --repository -p --root",
    "composer": "-d --working-dir",
    "npx": "-p --package -c --call -w --workspace --cache",
    "uvx": "--from --with --python -p --index --default-index --index-url",
    "pipx": "--python --spec --index-url -i --pip-args --suffix",
    "dotnet": "-v --version -s --source -f --framework --package-directory",
    "dnf": "--enablerepo --disablerepo --releasever -x --exclude --setopt",
}
VALUED_BY_NPX = names(f"{VALUED['npx']} --registry")
SAME = {"pnpm": "npm", "yarn": "npm", "bun": "npm", "pip3": "pip", "apt-get": "apt", "bunx": "npx", "yum": "dnf"}
REGISTRY_OF = dict.fromkeys(("npm", "pnpm", "yarn", "bun", "npx", "bunx"), "npm")
REGISTRY_OF |= dict.fromkeys(("pip", "pip3", "uv", "uvx", "poetry", "pipenv"), "pip")
REGISTRY_OF |= {"cargo": "cargo", "go": "go", "gem": "gem", "bundle": "gem", "composer": "composer"}
SYSTEM_WIDE = names(
    "-g --global --system --break-system-packages --root --prefix -t --target --install-dir --userconfig"
)
FLAGS = names(
    """
    -y --yes --assume-yes -q -qq --quiet -v --verbose -D --save-dev -S --save -E --save-exact -O --save-optional -P
    --save-prod -g --global --dev --exact --peer --optional --force --no-save --no-audit --no-fund --silent
    --legacy-peer-deps --prefer-offline --offline --ignore-scripts --production --frozen-lockfile --immutable
    --package-lock-only --no-package-lock -U --upgrade --user --pre --no-deps --no-cache-dir --no-cache --system
    --break-system-packages --no-build-isolation --force-reinstall --ignore-installed --disable-pip-version-check
    --no-input --dry-run --all-extras --all-groups --no-dev --frozen --locked --refresh --reinstall --no-sync
    --no-install-recommends --fix-broken -f --allow-downgrades --reinstall --cask --no-document -u -d -t -x --virtual
    --no-default-features --all --prefer-dist --no-interaction --no-scripts --no-progress --only-upgrade -w
    --workspace-root -r --recursive --no-root --sync --no-install --no --all-features --debug --release -h --help
    """
)
FILE = re.compile(r"\.{1,2}(?:\[.*\])?|(?:\.{0,2}|~)/.*|file:.*|.*\.(?:whl|tgz|tar\.gz|zip|deb|rpm)(?:\[.*\])?")
EXACT = re.compile(r"(?:==|=|@)v?\d[\w.+:~-]*$")


@dataclass
class Wanted:
    """`verb` is install, remove or run; `packages` as requested; `files`: paths, archives; `lists`: files of names."""

    program: str
    verb: str
    packages: list = field(default_factory=list)
    files: list = field(default_factory=list)
    lists: list = field(default_factory=list)
    sources: list = field(default_factory=list)
    version: str = ""
    is_certain: bool = True  # every word was classified

    @property
    def is_pinned(self):
        """Return True if every package has an exact version."""
        named = [*self.packages, *self.files]
        return bool(self.version) or (bool(named) and all(EXACT.search(name) for name in self.packages))


def wanted(program, texts):
    """Parse the words after a package manager's name; None if it installs, removes and fetches nothing."""
    key = SAME.get(program, program)
    options, operands, certain = _split(program, key, texts)
    verb = _verb(program, operands)
    if verb is None:
        return None
    found = Wanted(program, verb[0], is_certain=certain)
    named = verb[1]
    if found.verb == "run":
        given = [value for flag, value in options if flag in ("-p", "--package", "--from", "--spec")]
        named = given or named[:1]
    found.files = [name for name in named if FILE.fullmatch(name)]
    found.packages = [name for name in named if name not in found.files]
    for flag, value in options:
        if flag in EDITABLE and key in ("pip", "uv"):
            found.files.append(value)
        elif flag in LISTS and key in ("pip", "uv") and flag not in ("-c", "--constraint", "--group"):
            found.lists.append(value)
        elif flag in VERSIONS and key in ("gem", "cargo", "dotnet"):
            found.version = value
        elif flag in SOURCES and found.verb != "run":
            found.sources.append(value)
    if any(OPAQUE in name for name in (*found.packages, *found.files)):
        found.is_certain = False
        found.packages = [name for name in found.packages if OPAQUE not in name]
        found.files = [name for name in found.files if OPAQUE not in name]
    return found


def registry_hosts(program, texts):
    """Return the hosts that fetching these packages takes; none if they come from elsewhere or go elsewhere."""
    hosts = REGISTRIES.get(REGISTRY_OF.get(program, ""), ())
    elsewhere = any(
        OPAQUE in text or "://" in text or text.startswith(("git+", "git@", "github:")) or _leaves(text)
        for text in texts
    )
    return () if elsewhere else hosts


def _leaves(text):
    flag = text.partition("=")[0]
    return flag in SYSTEM_WIDE or flag in SOURCES


def _split(program, key, texts):
    """Return ([(option, value)], operands, whether all options are known); a runner's words end at its package."""
    valued, options, operands, certain = names(VALUED.get(key, "")), [], [], True
    rest, runs = list(texts), program in RUNNERS
    while rest:
        text = rest.pop(0)
        if text == "--":
            operands += rest
            break
        if not text.startswith("-"):
            operands.append(text)
            runs = runs or operands[-1:] == ["exec"] or _runs(program, operands)
            if runs and (program in RUNNERS or len(operands) > 1):
                break  # the rest belongs to the program that is run
            continue
        flag, equals, value = text.partition("=")
        if equals:
            options.append((flag, value))
        elif flag in valued and rest:
            options.append((flag, rest.pop(0)))
        elif flag not in FLAGS and rest and not rest[0].startswith("-"):
            certain, rest = False, rest[1:]  # either its value or a package
    return options, operands, certain


def _runs(program, operands):
    return operands[0] in RUN.get(program, ()) and not (program == "uv" and operands[0] == "run")


def _verb(program, operands):
    """Return (install, remove or run; the words it applies to), or None."""
    if program in RUNNERS:
        return ("run", operands)
    if operands and operands[0] in PREFIXES.get(program, ()):
        operands = operands[1:]
    first = operands[0] if operands else ("install" if program == "yarn" else "")
    if first in RUN.get(program, ()):
        return ("run", operands[1:])
    if program == "dotnet" and first == "package":
        return ("install", operands[1:])
    if first in ADD:
        return ("install", operands[1:])
    return ("remove", operands[1:]) if first in REMOVE else None


def title(found):
    """Return the headline: `Install lodash and 2 more (npm)`."""
    act = {"install": "Install", "remove": "Remove", "run": "Fetch and run"}[found.verb]
    named = [*found.packages, *found.files]
    if not named:
        what = f"what {found.lists[0][:60]} names" if found.lists else "the project's packages"
        return f"{act} {what} ({found.program})"
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return f"{act} {named[0][:60]}{more} ({found.program})"


def installs_packages(says, spelled, name, texts):
    """Return the effect of an install; its packages are the words that the program itself takes for packages."""
    found = wanted(name, texts)
    named = [*found.packages, *found.files] if found else ()
    hosts = registry_hosts(name, texts)
    return impacts.installs(says, spelled, named, title=title(found) if found else "", hosts=hosts)

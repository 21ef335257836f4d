"""Package managers, compilers and runtimes: a project's own tests and builds, and whatever else they start."""

import re
from dataclasses import replace

from .. import impacts
from ..shell_words import Word, names
from . import packages
from . import verbs as verbs_mod
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles, kind, paths_inside
from .scripts import script_effects

# Scripts with such names build or check; others may publish or deploy, so a rule has to name them.
CALM_SCRIPT = re.compile(
    r"(?:tests?|check|lint|format|fmt|build|compile|typecheck|types|tsc|coverage|unit|e2e|integration|spec|verify|validate"
    r"|clean|docs?|dev|bench|storybook|prettier|eslint|style|ci|all|watch|dist|help|mypy|ruff)(?:[:_.-][\w:.-]+)?"
)
LOUD_PART = re.compile(r"deploy|publish|release|push|upload|prod|migrate|destroy|drop|install")
NPM_READS = {"ls", "list", "ll", "la", "root", "prefix", "bin", "explain", "why", "--version", "-v", "help", "fund"}
NPM_ASKS = {"view", "info", "show", "outdated", "audit", "search", "ping", "whoami", "doctor"}
NPM_INSTALLS = names("install i add ci update upgrade up rebuild dedupe prune uninstall remove rm link")
NPM_REMOTE = names("publish unpublish deprecate dist-tag owner access token login logout adduser team star")
NPM_FLAGS = names(
    """
    --silent -s --if-present --workspaces -ws --quiet -q -r --recursive --json -l --long --all -a --save-dev -D --save
    -S --save-exact -E --save-optional -O --save-prod --no-audit --no-fund --ignore-scripts --legacy-peer-deps --dev
    """
)
FOLDERS = ("-C", "--dir", "--prefix", "--cwd")
CHOOSES = {
    "pnpm": ("--filter", "-F", "-C", "--dir"),
    "npm": ("--workspace", "--prefix", "-C"),
    "yarn": ("--cwd",),
    "bun": ("--filter", "--cwd"),
}
INSTALLER_READS = ("list", "freeze", "show", "check", "--version", "-V", "help", "tree", "--help", "env")
TABLE = parse_table(
    """
    cargo : --release --all --workspace -p=text --package=text --lib --bin=text --bins --test=text --tests --examples
        --all-targets --all-features --features=text -F=text --no-default-features -v -q --quiet --verbose --locked
        --offline --frozen -j=num --target=triple --no-run --no-fail-fast --color=text --exclude=text --no-deps --doc
        --check --fix --allow-dirty --message-format=text --depth=num --edges=text -e=text -i=text --open-off
        --keep-going --example=text --bench=text -D=text -W=text -A=text --nocapture --test-threads=num --ignored
        --exact --skip=text --include-ignored --show-output : text*
    go : -v -race -short -json -x -a -n -cover -failfast -m -u -s -w -l -d -c -benchmem -deps -test -all -trimpath
        -run=text -count=num -bench=text -benchtime=text -timeout=text -tags=text -ldflags=ldflags -o=out -C=dir
        -coverprofile=out -blockprofile=out -memprofile=out -cpuprofile=out -p=num -parallel=num -f=text -skip=text
        -mod=text -cpu=text -covermode=text -shuffle=text -vet=text : package*
    """,
    "single-dash",
)
GO_MOD = ("tidy", "why", "graph", "edit", "verify", "vendor", "init")  # need the network only for what is missing
GO_MOD_READS = ("why", "graph", "verify")
GRADLE = re.compile(
    r"(?:build|test|check|assemble|clean|compile\w*|lint\w*|verify|package|spotless\w*|dependencies|tasks|help)"
)


@kind("tests")
def tests(word, name, judge):
    path = word.text.split("::")[0]
    if word.opaque:
        return [impacts.unknown("runs tests that are unknown until it runs")]
    return [e for e in judge.reads(Word(path, glob=word.glob)) if e.tier != "low"] if path else []


@kind("package")
def package(word, name, judge):
    return [e for e in judge.reads(Word(word.text.replace("...", "x"))) if e.tier != "low"]


@kind("target")
def target(word, name, judge):
    """Judge a make target; a variable set on the command line can become a command in the makefile."""
    if "=" in word.text or word.opaque or not re.fullmatch(r"[\w./:@%+-]+", word.text):
        return [impacts.unknown("sets a variable of the makefile")]
    return task_effects(word.text, name)


@kind("ldflags")
def linker_flags(word, name, judge):
    texts = word.text.replace("-X ", "-X=").split()
    plain = all(re.fullmatch(r"-[sw]|-X=[\w./-]+=[\w.:/+-]*", text) for text in texts)
    return [] if plain else [impacts.unknown("passes flags to the linker that can start a program")]


@kind("coverage")
def coverage_report(word, name, judge):
    if re.fullmatch(r"term(?:-missing)?(?::skip-covered)?|xml|html|json|lcov|annotate|", word.text):
        return []
    kind_of, _, path = word.text.partition(":")
    if word.literal and kind_of in ("xml", "html", "json", "lcov", "annotate") and path:
        return judge.writes(Word(path))
    return [impacts.unknown("writes its report elsewhere")]


def task_effects(script, name):
    """Return the effects of a project's script, judged by its name."""
    if CALM_SCRIPT.fullmatch(script) and not LOUD_PART.search(script):
        return [impacts.builds(f"runs {name} {script}, which runs the project's own code")]
    return [impacts.starts(f"runs {name} {script[:60]}, which can do anything the project says", script)]


@handles("npm", "pnpm", "yarn", "bun")
def npm(name, words, simple, judge):
    own, passed = _at_dashes(words)
    own, chosen = _packages_chosen(name, own, judge)
    flags = [w for w in own if w.text.startswith("-") and w.text not in NPM_READS]
    verbs = [w.text for w in own if not w.text.startswith("-") or w.text in NPM_READS]
    operands = verbs_mod.operands_of(name, [w.text for w in own])
    if operands and not any(verb.startswith("-") for verb in verbs):
        verbs = operands  # without values of options such as --prefix
    found = chosen + [impacts.unknown(_odd_flag(name, w.text)) for w in flags if w.text not in NPM_FLAGS]
    found += [e for word in passed for e in _passed(word, judge)]
    verb = verbs[0] if verbs else ("install" if name == "yarn" else "help")
    return found + _npm_verb(name, verb, verbs[1:], [word.text for word in words])


def _packages_chosen(name, words, judge):
    """Split off the options that choose packages or a folder of the workspace; return (other words, effects)."""
    kept, found, rest = [], [], list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.text.partition("=")
        if flag not in CHOOSES.get(name, ()) or not (equals or rest):
            kept.append(word)
            continue
        given = Word(value, opaque=word.opaque) if equals else rest.pop(0)
        if given.text.startswith("-") or not given.literal:
            found.append(impacts.unknown(f"chooses with {flag} what is unknown until it runs"))
        elif flag in FOLDERS:
            found += [effect for effect in judge.reads(given, folder=True) if effect.tier != "low"]
        found.append(impacts.builds(f"runs {name} for {given.text[:60]}", given.text))
    return kept, found


def _odd_flag(name, flag):
    if flag.split("=")[0] in ("-c", "--call", "-p", "--package", "--script-shell"):
        return f"uses {flag[:40]}, which can run another program"
    return f"uses {flag[:40]}, which is not a known harmless option of {name}"


def _at_dashes(words):
    cut = next((i for i, word in enumerate(words) if word.text == "--"), len(words))
    return words[:cut], words[cut + 1 :]


def _passed(word, judge):
    """Return effects of a word passed on to a script: only of paths that lead outside, or unknown text."""
    text = word.text.split("=", 1)[-1]
    if word.opaque:
        return [impacts.unknown("passes on what is unknown until it runs")]
    return [e for e in judge.reads(Word(text)) if e.tier != "low"] if text.startswith(("/", "~", "..")) else []


def _npm_verb(name, verb, rest, texts):
    if verb in ("run", "run-script", "rum"):
        return task_effects(rest[0], f"{name} run") if rest else []
    if verb in ("test", "t", "tst", "build", "lint", "start"):
        return [impacts.builds(f"runs {name} {verb}, which runs the project's own code")]
    if verb in NPM_READS or (verb in ("config", "pkg") and rest[:1] in (["get"], ["list"], ["ls"])):
        return []
    if verb in NPM_ASKS:
        says, hosts = f"asks the package registry ({name} {verb})", packages.registry_hosts(name, texts)
        return [impacts.Effect("network", says, "high", "yes", spelled=(verb,), hosts=hosts)]
    if verb in NPM_INSTALLS:
        return [_installs(f"installs packages with {name} {verb}", (verb,), name, texts)]
    if verb in NPM_REMOTE:
        says = "publishes a package" if verb == "publish" else "changes the package registry"
        published = [text for text in rest if not text.startswith("-")]
        title = f"Publish {' '.join(published)[:60] or 'this package'} ({name})" if verb == "publish" else ""
        return [impacts.remote(f"{says} with {name} {verb}", (verb,), title=title)]
    if name == "yarn" and CALM_SCRIPT.fullmatch(verb):
        return task_effects(verb, name)
    if packages.wanted(name, texts):
        return [_installs(f"fetches and runs a package with {name} {verb}", (verb,), name, texts)]
    return [impacts.starts(f"starts a program through {name} {verb[:40]}", verb)]


def _installs(says, spelled, name, texts):
    """Return the effect of an install; its packages are the words that the program itself takes for packages."""
    found = packages.wanted(name, texts)
    named = [*found.packages, *found.files] if found else ()
    hosts = packages.registry_hosts(name, texts)
    return impacts.installs(says, spelled, named, title=packages.title(found) if found else "", hosts=hosts)


@handles(
    "pip",
    "pip3",
    "uv",
    "poetry",
    "pipenv",
    "conda",
    "gem",
    "bundle",
    "composer",
    "brew",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "apk",
    "pacman",
    "nix",
)
def installer(name, words, simple, judge):
    texts = [word.text for word in words]
    if name == "uv" and texts[:1] == ["pip"]:
        texts = texts[1:]
    verb = next((text for text in texts if not text.startswith("-")), texts[0] if texts else "help")
    operands = verbs_mod.operands_of(name, texts) if name in verbs_mod.GLOBAL_VALUES else None
    verb = operands[0] if operands else verb
    if verb in INSTALLER_READS and not _odd_flags(texts):
        return []
    if verb in ("run", "exec") and name in ("uv", "poetry", "pipenv", "bundle") and len(texts) > 1 and texts[0] == verb:
        if texts[1].startswith("-"):
            return [impacts.starts(f"runs a program through {name}")]
        judge.also.append(texts[1:])
        through = impacts.Effect("start", f"runs {texts[1][:40]} through {name}", "low", spelled=(verb, texts[1]))
        return [through, *judge.inner(words[1:])]
    if verb in ("publish", "upload", "push", "login", "config"):
        return [impacts.remote(f"runs {name} {verb}", (verb,))]
    flags = [text for text in texts if text.startswith("-")]
    says = f"installs packages with {name} {verb}" if verb in ("install", "add", "sync") else ""
    says = says or f"changes packages with {name} {verb[:40]}"
    return [_installs(says, (verb, *flags), name, [word.text for word in words])]


def _odd_flags(texts):
    known = (
        "--format=json",
        "-v",
        "--verbose",
        "--version",
        "-V",
        "--help",
        "--format",
        "-q",
        "--all",
        "--local",
        "-l",
    )
    return any(text.startswith("-") and text not in known for text in texts)


@handles("cargo")
def cargo(name, words, simple, judge):
    return _compiler(
        "cargo",
        words,
        judge,
        ("build", "test", "check", "clippy", "fmt", "doc", "bench", "nextest", "b", "t", "c"),
        ("tree", "metadata", "--version", "version", "-V", "--list"),
    )


@handles("go")
def go(name, words, simple, judge):
    return _compiler("go", words, judge, ("build", "test", "vet", "fmt"), ("list", "version", "doc", "env"))


def _compiler(name, words, judge, building, reading):
    verb = words[0].text if words else "help"
    own = words[1:] if name == "go" else [word for word in words[1:] if word.text != "--"]
    arguments, problems = read_arguments(TABLE[name], own)
    found = [impacts.unknown(says) for says, word in problems]
    for argument in arguments:
        found += argument_effects(argument, name, judge)
    if verb in building:
        return [*found, impacts.builds(f"runs {name} {verb}, which runs the project's own code")]
    if verb in reading or verb == "help":
        if name == "go" and verb == "list" and any(word.text in ("-m", "-u") for word in own):
            return [
                *found,
                impacts.Effect("network", "asks the module proxy (go list -m)", "high", "yes", spelled=("-m",)),
            ]
        sets = verb == "env" and any(word.text.startswith("-") or "=" in word.text for word in own)
        return [*found, impacts.unknown("changes the settings of go")] if sets else found
    if name == "go" and verb == "mod" and own and own[0].text in GO_MOD_READS:
        return [*found, impacts.builds(f"runs go mod {own[0].text}, which fetches what go.mod names as a build does")]
    if verb in ("install", "add", "get", "update", "mod", "fetch", "remove", "uninstall"):
        effect = _installs(f"changes packages with {name} {verb}", (verb,), name, [w.text for w in words])
        if name == "go" and verb == "mod" and len(words) > 1 and words[1].text in GO_MOD:
            effect = replace(effect, hosts=(), held="runs")
        return [*found, effect]
    if verb in ("publish", "login", "yank", "owner"):
        title = f"Publish this package ({name})" if verb == "publish" else ""
        return [*found, impacts.remote(f"changes the package registry with {name} {verb}", (verb,), title=title)]
    return [*found, impacts.starts(f"starts a program through {name} {verb[:40]}", verb)]


@handles(
    "gradle",
    "mvn",
    "gradlew",
    "mvnw",
    "dotnet",
    "rake",
    "just",
    "task",
    "bazel",
    "meson",
    "swift",
    "mix",
    "sbt",
)
def gradle(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts and all(
        GRADLE.fullmatch(text) or text in ("-q", "--info", "--quiet", "--version", "-v", "--no-daemon", "--offline")
        for text in texts
    ):
        return [impacts.builds(f"runs {name} {texts[0]}, which runs the project's own code")]
    return [impacts.starts(f"runs {name} with words that are not known to be harmless", texts[0] if texts else "")]


@handles("node", "deno")
def node(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts in (["--version"], ["-v"]):
        return []
    if name == "node" and texts[:1] in (["--check"], ["-c"]) and len(texts) == 2:
        return judge.reads(words[1])
    if name == "node" and texts[:1] == ["--test"]:
        return [impacts.builds("runs node --test, which runs the project's own code"), *paths_inside(words[1:], judge)]
    if texts[:1] and texts[0] in ("-e", "--eval", "-p", "--print"):
        return [impacts.starts(f"runs program text through {name}")]
    script = next((text for text in texts if not text.startswith("-")), None)
    plain = script is not None and texts[0] == script
    return script_effects(script or "program text", script if plain else "", judge)

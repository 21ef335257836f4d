"""cargo and go, which build and test a project and fetch what it needs."""

from dataclasses import replace

from .. import impacts
from .grammar import parse_table, read_arguments
from .packages import installs_packages
from .registry import argument_effects, handles

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
            says, asks = "asks the module proxy (go list -m)", any(word.text in ("-u", "-versions") for word in own)
            held = "" if asks else "runs"  # as in `go mod tidy`
            return [*found, impacts.Effect("network", says, "high", "yes", spelled=("-m",), held=held)]
        sets = verb == "env" and any(word.text.startswith("-") or "=" in word.text for word in own)
        return [*found, impacts.unknown("changes the settings of go")] if sets else found
    if name == "go" and verb == "mod" and own and own[0].text in GO_MOD_READS:
        return [*found, impacts.builds(f"runs go mod {own[0].text}, which fetches what go.mod names as a build does")]
    if verb in ("install", "add", "get", "update", "mod", "fetch", "remove", "uninstall"):
        effect = installs_packages(f"changes packages with {name} {verb}", (verb,), name, [w.text for w in words])
        if name == "go" and verb == "mod" and len(words) > 1 and words[1].text in GO_MOD:
            effect = replace(effect, hosts=(), held="runs")
        return [*found, effect]
    if verb in ("publish", "login", "yank", "owner"):
        title = f"Publish this package ({name})" if verb == "publish" else ""
        return [*found, impacts.remote(f"changes the package registry with {name} {verb}", (verb,), title=title)]
    return [*found, impacts.starts(f"starts a program through {name} {verb[:40]}", verb)]

"""npm, pnpm, yarn and bun: scripts of a project, packages, and what goes to the registry."""

from .. import impacts
from ..shell_words import Word, names
from . import packages
from . import verbs as verbs_mod
from .packages import installs_packages
from .projects import CALM_SCRIPT, task_effects
from .registry import handles

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
        return [installs_packages(f"installs packages with {name} {verb}", (verb,), name, texts)]
    if verb in NPM_REMOTE:
        says = "publishes a package" if verb == "publish" else "changes the package registry"
        published = [text for text in rest if not text.startswith("-")]
        title = f"Publish {' '.join(published)[:60] or 'this package'} ({name})" if verb == "publish" else ""
        return [impacts.remote(f"{says} with {name} {verb}", (verb,), title=title)]
    if name == "yarn" and CALM_SCRIPT.fullmatch(verb):
        return task_effects(verb, name)
    if packages.wanted(name, texts):
        return [installs_packages(f"fetches and runs a package with {name} {verb}", (verb,), name, texts)]
    return [impacts.starts(f"starts a program through {name} {verb[:40]}", verb)]

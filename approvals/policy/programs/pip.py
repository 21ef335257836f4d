"""pip and the other installers of packages."""

from .. import impacts
from . import verbs as verbs_mod
from .packages import installs_packages
from .registry import handles

INSTALLER_READS = ("list", "freeze", "show", "check", "--version", "-V", "help", "tree", "--help", "env")


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
    return [installs_packages(says, (verb, *flags), name, [word.text for word in words])]


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

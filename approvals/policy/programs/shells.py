"""The shell's own commands, and programs that start others."""

import re

from .. import effects
from ..rules import INTERPRETERS, SHELLS, WRAPPERS
from ..verdict import TIERS
from .registry import HANDLERS, handles
from .tables import BUILDS

ARITHMETIC = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
VENV = re.compile(r"(?:\./)?\.?venv/bin/activate")
CATASTROPHIC = ("mkfs", "shutdown", "reboot", "halt", "poweroff", "fdisk", "sfdisk", "parted", "wipefs", "mkswap")
MACHINE = ("chown", "chgrp", "mount", "umount", "systemctl", "service", "crontab", "at", "batch", "iptables", "sysctl")
MACHINE += ("useradd", "usermod", "passwd", "insmod", "modprobe", "launchctl", "kill", "pkill", "killall", "setcap")


@handles("echo", ":", "true", "false")
def text_only(name, words, simple, judge):
    return []


@handles("printf")
def printf(name, words, simple, judge):
    if words and words[0].text != "--" and (words[0].text.startswith("-") or words[0].text[:1] == "\ufffc"):
        return [effects.unknown("uses an option of printf, which can evaluate text")]
    return []


@handles("test", "[")
def test(name, words, simple, judge):
    for index, word in enumerate(words):
        if word.text in ("-v", "-R"):
            return [effects.unknown(f"tests with {word.text}, which evaluates what it is given")]
        if word.splits and word.opaque:
            return [effects.unknown("tests words that are not known before it runs")]
        if word.text in ARITHMETIC:
            sides = [w.text for w in words[max(index - 1, 0) : index + 2 : 2]]
            if not all(side.lstrip("-").isdecimal() or side == "\ufffc" for side in sides):
                return [effects.unknown("compares what is not a number")]
    return []


@handles("read")
def read(name, words, simple, judge):
    """Takes lines from input that is judged where it comes from."""
    plain = all(word.literal and (word.text in ("-r", "-s") or word.text.isidentifier()) for word in words)
    return [] if plain else [effects.unknown("uses an option of read that is not known")]


@handles("printenv")
def environment(name, words, simple, judge):
    return [effects.Effect("read", "prints the environment, where secrets may be", "high", "no", "the environment")]


@handles("cd")
def change_folder(name, words, simple, judge):
    places = [place for word in words if word.text not in ("-L", "-P", "--") for place in judge.places(word)]
    outside = [place.shown for place in places if not place.inside]
    return [effects.unknown(f"goes to {outside[0]}, outside the workspace")] if outside else []


@handles("set")
def set_options(name, words, simple, judge):
    texts = [word.text for word in words]
    if not texts:
        return environment(name, words, simple, judge)
    if all(re.fullmatch(r"[-+][euxo]+|pipefail|--", text) for text in texts):
        return []
    return [effects.unknown("changes how the shell reads what follows")]


@handles("exit", "return", "break", "continue", "wait", "shift", "jobs", "times", "umask")
def flow(name, words, simple, judge):
    plain = all(re.fullmatch(r"\d+|%\d+", word.text) or word.opaque for word in words)
    return [] if plain else [effects.unknown(f"uses {name} with words that are not numbers")]


@handles("command", "builtin", "time", "nice", "nohup", "stdbuf", "timeout", "xargs")
def stripped_wrapper(name, words, simple, judge):
    """Reached only where the wrapper was not taken off, since its options were not plain."""
    if name == "command" and words and words[0].text in ("-v", "-V"):
        return []
    return starter(name, words, simple, judge)


@handles(*(WRAPPERS - {"command", "builtin", "time", "nice", "nohup", "stdbuf", "timeout", "xargs", "npx", "bunx"}))
def starter(name, words, simple, judge):
    """A program that starts another: what follows is judged too, so that a ban still finds it."""
    if name == "env" and not words:
        return environment(name, words, simple, judge)
    if name in ("source", ".") and words and VENV.fullmatch(words[0].text) and len(words) == 1:
        return [effects.builds("turns on the project's Python environment")]
    says = f"starts another program through {name}"
    if name in ("sudo", "doas", "su", "runuser"):
        says = "takes the rights of another user"
    found = [effects.starts(says)]
    if name in ("eval",) and all(word.literal for word in words):
        return found + _worst_only(judge.nested(" ".join(word.text for word in words)))
    for index, word in enumerate(words):
        if not word.text.startswith("-") and "=" not in word.text and not re.fullmatch(r"[\d.]+[smhd]?", word.text):
            judge.also.append([w.text for w in words[index:]])
            inner = judge.inner(words[index:]) if word.literal and word.text != name else []
            return found + _worst_only(inner)
    return found


def _worst_only(inner):
    """Keep what is worse than waiting; the rest waits for the wrapper's sake anyway."""
    return [effect for effect in inner if TIERS.index(effect.tier) > TIERS.index("high")]


@handles(*SHELLS)
def shell(name, words, simple, judge):
    """`sh -c text` is read like any other command; a script or a pipe is not."""
    texts = [word.text for word in words]
    if len(words) >= 2 and re.fullmatch(r"-[elxu]*c", texts[0]) and words[1].literal and words[1].plain:
        through = effects.Effect("start", f"runs text through {name}", "low")
        return [through, *judge.nested(texts[1])]
    if texts[:1] in (["--version"], ["-n"]) and len(texts) <= 2:
        return [] if len(texts) == 1 else judge.reads(words[1])
    script = next((text for text in texts if not text.startswith("-")), None)
    if script:
        return [effects.starts(f"runs {script[:80]}, which can do anything", script)]
    return [_piped_in(name, simple)]


def _piped_in(name, simple):
    source = simple.fed_by.words[0].text if simple.fed_by and simple.fed_by.words else ""
    if source.rsplit("/", 1)[-1] in ("curl", "wget", "fetch", "http"):
        return effects.harmful(f"runs with {name} whatever the network answers", "critical")
    return effects.starts(f"runs with {name} whatever it is given")


@handles(*(INTERPRETERS - {"python", "python2", "python3", "node", "deno", "bun"}))
def interpreter(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts in (["--version"], ["-v"], ["-V"]):
        return []
    script = next((text for text in texts if not text.startswith("-")), "what it is given")
    return [effects.starts(f"runs program text through {name}", script)]


@handles(*CATASTROPHIC)
def catastrophe(name, words, simple, judge):
    return [effects.harmful(f"runs {name}, which destroys or stops the machine", "forbidden")]


@handles(*MACHINE)
def machine(name, words, simple, judge):
    says = "ends processes" if "kill" in name else f"changes the machine with {name}"
    return [effects.harmful(says, spelled=words[0].text if words else name)]


@handles("npx", "bunx")
def package_runner(name, words, simple, judge):
    rest = [word for word in words if word.text not in ("--no-install", "--no")]
    if rest and rest[0].text in BUILDS:
        return judge.inner(rest)
    target = rest[0].text if rest else name
    return [effects.installs(f"fetches and runs the package {target[:60]}", target)]


def register_mkfs():
    for kind in ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "fat", "ntfs"):
        HANDLERS[f"mkfs.{kind}"] = catastrophe


register_mkfs()

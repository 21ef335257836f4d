"""Shell builtins, and programs that start others."""

import itertools
import re
from dataclasses import replace

from .. import impacts
from ..rules import INTERPRETERS, SHELLS, WRAPPERS
from ..shell_words import JOB
from ..verdict import TIERS
from . import packages, services
from .edits import edited_in_place
from .registry import HANDLERS, handles, is_known, named_in
from .scripts import OPTIONS, read_alike, script_effects
from .tables import BUILDS

ARITHMETIC = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
VENV = re.compile(r"(?:\./)?\.?venv/bin/activate")
OTHER_USERS = ("sudo", "doas", "su", "runuser")
# Wrappers whose command is not, or may not be, run in the envelope of the call.
LEAVING = {*OTHER_USERS, "ssh", "chroot", "nsenter", "unshare", "systemd-run"}
CATASTROPHIC = ("mkfs", "shutdown", "reboot", "halt", "poweroff", "fdisk", "sfdisk", "parted", "wipefs", "mkswap")
MACHINE = ("chown", "chgrp", "mount", "umount", "systemctl", "service", "crontab", "at", "batch", "iptables", "sysctl")
MACHINE += ("useradd", "usermod", "passwd", "insmod", "modprobe", "launchctl", "kill", "pkill", "killall", "setcap")


# The desktop, the session's services, terminals of others, and from WSL the Windows around it.
OUTSIDE_SERVICES = ("busctl", "dbus-send", "gdbus", "journalctl", "loginctl", "xdg-open", "open", "tmux", "screen")
OUTSIDE_SERVICES += ("docker-compose", "nerdctl", "colima", "minikube", "vagrant", "virsh", "multipass", "machinectl")
OUTSIDE_SERVICES += ("wsl", "wsl.exe", "cmd.exe", "powershell.exe", "explorer.exe", "security", "secret-tool", "pass")
FOREIGN_PACKAGE = re.compile(r"://|^git[+@]|^(?:github|gitlab|bitbucket):|^--?(?:registry|c|call)\b|\ufffc")
JOB_NUMBER = re.compile(r"%[%+-]?\d*")


@handles("echo", ":", "true", "false")
def text_only(name, words, simple, judge):
    return []


@handles("printf")
def printf(name, words, simple, judge):
    if words and words[0].text != "--" and (words[0].text.startswith("-") or words[0].text[:1] == "\ufffc"):
        return [impacts.unknown("uses an option of printf, which can evaluate text")]
    return []


@handles("test", "[")
def test(name, words, simple, judge):
    for index, word in enumerate(words):
        if word.text in ("-v", "-R"):
            return [impacts.unknown(f"tests with {word.text}, which evaluates what it is given")]
        if word.splits and word.opaque:
            return [impacts.unknown("tests words that are unknown until it runs")]
        if word.text in ARITHMETIC:
            sides = [w.text for w in words[max(index - 1, 0) : index + 2 : 2]]
            if not all(side.lstrip("-").isdecimal() or side == "\ufffc" for side in sides):
                return [impacts.unknown("compares what is not a number")]
    return []


@handles("read")
def read(name, words, simple, judge):
    """Judge only the words; the input is judged where it comes from."""
    plain = all(word.literal and (word.text in ("-r", "-s") or word.text.isidentifier()) for word in words)
    return [] if plain else [impacts.unknown("uses an option of read that is not known")]


@handles("printenv")
def environment(name, words, simple, judge):
    """Judge printing the environment; an envelope has one without secrets only as far as they are known."""
    says, held = "prints the environment, where secrets may be", ""
    if words and all(word.literal and word.text.isidentifier() for word in words):
        held = "runs"  # as `echo $NAME`
    return [impacts.Effect("read", says, "high", "no", "the environment", held=held)]


@handles("cd")
def change_folder(name, words, simple, judge):
    places = [place for word in words if word.text not in ("-L", "-P", "--") for place in judge.places(word)]
    outside = [place for place in places if not (place.inside or place.trusted)]
    if not outside:
        return []
    return [impacts.unknown(f"goes to {outside[0].shown}, {judge.world.outside}")]


@handles("set")
def set_options(name, words, simple, judge):
    texts = [word.text for word in words]
    if not texts:
        return environment(name, words, simple, judge)
    if all(re.fullmatch(r"[-+][euxo]+|pipefail|--", text) for text in texts):
        return []
    return [impacts.unknown("changes how the shell reads what follows")]


@handles("exit", "return", "break", "continue", "wait", "shift", "jobs", "times", "umask")
def flow(name, words, simple, judge):
    plain = all(re.fullmatch(r"\d+|%\d+", word.text) or word.opaque for word in words)
    return [] if plain else [impacts.unknown(f"uses {name} with words that are not numbers")]


@handles("command", "builtin", "time", "nice", "nohup", "stdbuf", "timeout", "xargs")
def stripped_wrapper(name, words, simple, judge):
    """Judge a wrapper that was not stripped, because its options were not plain."""
    if name == "command" and words and words[0].text in ("-v", "-V"):
        return []
    return starter(name, words, simple, judge)


@handles(*(WRAPPERS - {"command", "builtin", "time", "nice", "nohup", "stdbuf", "timeout", "xargs", "npx", "bunx"}))
def starter(name, words, simple, judge):
    """Judge a program that starts another, and the command after it, so that a restricting rule still matches that."""
    if name == "env" and not words:
        return environment(name, words, simple, judge)
    if name in ("source", ".") and words and VENV.fullmatch(words[0].text) and len(words) == 1:
        return [impacts.builds("turns on the project's Python environment")]
    says = f"starts another program through {name}"
    if name in OTHER_USERS:
        says = "takes the rights of another user"
    found = [impacts.starts(says, held="asks" if name in LEAVING else "")]
    if name == "ssh":
        found.append(services.connects(name, [word.text for word in words]))
    if name in ("eval",) and all(word.literal for word in words):
        return found + _worst_only(judge.nested(" ".join(word.text for word in words)), judge)
    for index, word in enumerate(words):
        if not word.text.startswith("-") and "=" not in word.text and not re.fullmatch(r"[\d.]+[smhd]?", word.text):
            judge.also.append([w.text for w in words[index:]])
            inner = judge.inner(words[index:]) if word.literal and word.text != name else []
            return found + _worst_only(inner, judge)
    return found


def _worst_only(inner, judge):
    """Keep effects above high; the others matter only in an envelope, since the wrapper asks otherwise."""
    judge.within += inner
    return [effect for effect in inner if TIERS.index(effect.tier) > TIERS.index("high")]


@handles(*SHELLS)
def shell(name, words, simple, judge):
    """Judge `sh -c text` like any other command; a script or a pipe cannot be read."""
    texts = [word.text for word in words]
    if (given := _given_text(words)) is not None:
        if name not in ("bash", "sh") or (name == "sh" and not read_alike(given)):
            return [impacts.starts(f"runs text through {name}, which reads it in its own way")]
        through = impacts.Effect("start", f"runs text through {name}", "low")
        return [through, *judge.nested(given)]
    if texts[:1] in (["--version"], ["-n"]) and len(texts) <= 2:
        return [] if len(texts) == 1 else judge.reads(words[1])
    from_input = any(re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*", text) for text in texts)
    script = next((text for text in texts if not text.startswith("-")), None)
    if script and not from_input:
        at = texts.index(script)
        plain = name in ("bash", "sh") and all(map(OPTIONS.fullmatch, texts[:at])) and words[at].literal
        return script_effects(script, script, judge, by=name, arguments=words[at + 1 :] if plain else None)
    return [impacts.starts(f"runs with {name} whatever it is given")]


def _given_text(words):
    """Return the text of `-c`, alone or behind options that change nothing in how it is read; None without one."""
    rest = list(itertools.dropwhile(lambda word: re.fullmatch(r"-[elxu]+", word.text), words))
    is_text = len(rest) > 1 and re.fullmatch(r"-[elxu]*c", rest[0].text) and rest[1].literal and rest[1].plain
    return rest[1].text if is_text else None


@handles(*(INTERPRETERS - {"python", "python2", "python3", "node", "deno", "bun"}))
def interpreter(name, words, simple, judge):
    texts = [word.text for word in words]
    if texts in (["--version"], ["-v"], ["-V"]):
        return []
    script = next((text for text in texts if not text.startswith("-")), "what it is given")
    edited = edited_in_place(name, words, judge)
    return [impacts.starts(f"runs program text through {name}", script), *edited]


@handles(*CATASTROPHIC)
def catastrophe(name, words, simple, judge):
    return [impacts.harmful(f"runs {name}, which destroys or stops the machine", "forbidden")]


@handles(*OUTSIDE_SERVICES)
def outside_service(name, words, simple, judge):
    """Judge programs that ask a service or another system of this machine, which no envelope holds, to do things."""
    return [impacts.unknown(f"talks to another part of this machine through {name}", held="asks")]


@handles(*MACHINE)
def machine(name, words, simple, judge):
    if name == "kill" and words and all(map(_is_own_job, _targets(words))):
        return [impacts.local("ends jobs of this shell")]
    says = "ends processes" if "kill" in name else f"changes the machine with {name}"
    return [impacts.harmful(says, spelled=words[0].text if words else name)]


def _is_own_job(word):
    return JOB in word.inner or (word.literal and JOB_NUMBER.fullmatch(word.text) is not None)


def _targets(words):
    """Return the words of kill after the signal."""
    return words[1:] if re.fullmatch(r"-(?:[A-Z]+|\d+)", words[0].text) and len(words) > 1 else words


def _trusted_package(name, judge):
    """Return True if, in each folder that this may run in, the name leads to a program that the policy trusts."""
    words = [f"{cwd.rstrip('/')}/node_modules/.bin/{name}" for cwd in judge.simple.cwds]
    return "/" not in name and all(word in judge.world.trusted_programs for word in words)


@handles("npx", "bunx")
def package_runner(name, words, simple, judge):
    rest = [word for word in words if word.text not in ("--no-install", "--no")]
    own = len(rest) < len(words) or any(word.text in judge.world.installed for word in rest[:1])
    if own and rest and rest[0].text in BUILDS:
        return judge.inner(rest)
    if rest and rest[0].literal and _trusted_package(rest[0].text, judge):
        judge.also.append([word.text for word in rest])
        judge.within += named_in(rest[1:], judge)
        return [impacts.builds(f"runs {rest[0].text[:60]} of the project's packages, which the policy trusts")]
    found = packages.wanted(name, [word.text for word in rest])
    named = [*found.packages, *found.files][:1]
    says = f"fetches and runs the package {named[0][:60]}" if named else f"fetches and runs a package with {name}"
    effect = impacts.installs(says, rest[0].text if rest else name, named, title=packages.title(found))
    if rest and rest[0].literal and is_known(rest[0].text):
        judge.within += judge.inner(rest)
    judge.within += named_in(rest, judge)
    # Most often the project has the package; where it has not, the envelope's list of hosts decides.
    elsewhere = any(FOREIGN_PACKAGE.search(word.text) for word in _of_runner(rest))
    return [effect if elsewhere else replace(effect, held="runs")]


def _of_runner(words):
    """Return the words up to the package that npx fetches, with those of its own options."""
    rest = iter(words)
    for word in rest:
        yield word
        if word.text in packages.VALUED_BY_NPX:
            yield from itertools.islice(rest, 1)
        elif not word.text.startswith("-"):
            return


def register_mkfs():
    for kind in ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "fat", "ntfs"):
        HANDLERS[f"mkfs.{kind}"] = catastrophe


register_mkfs()

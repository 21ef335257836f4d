"""The files and folders that a command brings from the network, by their paths."""

import itertools
import re
from dataclasses import dataclass, field

from .fetchers import SOMEWHERE
from .runners import FOLDER_FLAGS, TAKERS, UNPACKERS
from .shell_words import OPAQUE

SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^/]*)(?:/.*)?", re.DOTALL)
DESCRIPTOR = re.compile(r"/dev/fd/(\d+)|/proc/(?:self|thread-self|\$\$|\d+)/fd/(\d+)|(/dev/stdin)")
RECURSIVE = re.compile(r"-[A-Za-z]*[aRr][A-Za-z]*|--recursive|--archive")
SINGLE = ("gunzip", "gzip", "unxz", "xz", "bunzip2", "bzip2", "unzstd", "zstd")  # one file in, one file out


@dataclass
class DownloadedFiles:
    """Files and folders that earlier calls and commands have downloaded: {file: host} and {folder: host}."""

    world: object
    files: dict = field(default_factory=dict)
    folders: dict = field(default_factory=dict)
    unpacked: dict = field(default_factory=dict)  # those folders that stay suspect in later calls
    noted: set = field(default_factory=set)  # paths that are written to the entry of an earlier command
    descriptors: dict = field(default_factory=dict)  # {number: host} that the shell has open
    entered: str = ""  # the host of a folder with an unknown name that the shell is in

    def of_file(self, simple, word):
        """Return the host that a file comes from, by its own name or that of a folder above it."""
        if socket := SOCKET.fullmatch(word.text):
            return socket[1] if socket[1] and OPAQUE not in socket[1] else SOMEWHERE
        if number := DESCRIPTOR.fullmatch(word.text):
            return self.descriptors.get("0" if number[3] else number[1] or number[2], "")
        if not (self.files or self.folders) or word.text.startswith("-"):
            return ""
        for key in self._keys(simple, word.text):
            if key in self.files:
                return self.files[key]
            for folder, host in self.folders.items():
                if key.startswith(folder.rstrip("/") + "/"):
                    return host
        return ""

    def of_folder(self, simple, text):
        """Return the host that a folder comes from, as a whole or with a folder above it."""
        if not text or not self.folders:
            return ""
        for key in self._keys(simple, text):
            for folder, host in self.folders.items():
                if f"{key}/".startswith(folder.rstrip("/") + "/"):
                    return host
        return ""

    def named(self, simple, words):
        """Return the host of the first word that is, or names, something from the network."""
        return next((host for word in words if (host := word.fetched or self.of_file(simple, word))), "")

    def add(self, table, simple, text, host):
        if text and not text.startswith("/dev/"):
            for key in self._keys(simple, text):
                table[key] = host

    def _keys(self, simple, text):
        if OPAQUE in text:  # a name that is unknown, but the same one
            return [text]
        places = (self.world.place(text, cwd, shell=True) for cwd in simple.cwds)
        return list(dict.fromkeys(end for place in places for end in (place.lexical, *place.reals)))

    def remember(self, simple, brings):
        for name in brings.files:
            self.add(self.files, simple, name, brings.host)
        for name in brings.folders:
            self.add(self.folders, simple, name, brings.host)

    def written(self, simple, name, words, given, passed):
        """Remember the files that a program writes with what it is given or reads."""
        texts = [word.text for word in words]
        operands = [text for text in texts if not text.startswith("-")]
        if name in ("mv", "ln", "rsync") or (name == "cp" and any(RECURSIVE.fullmatch(text) for text in texts)):
            self._taken(simple, operands)
        if not passed:
            return
        if name == "tee" and given:
            for text in operands:
                self.add(self.files, simple, text, given)
        elif name in TAKERS and operands:
            target = operands[-1].removeprefix("of=")
            for text in (target, *(f"{target}/{source.rpartition('/')[2]}" for source in operands[:-1])):
                self.add(self.files, simple, text, passed)
        elif name in UNPACKERS:
            self._unpacked(simple, name, texts, passed)
        for flag, value in itertools.pairwise(texts):
            if flag in ("-o", "--output", "-out", "--out") and name not in UNPACKERS:
                self.add(self.files, simple, value, passed)

    def _taken(self, simple, operands):
        """Remember a copy, or the new name, of a folder that came from the network."""
        for source in operands[:-1]:
            host, target = self.of_folder(simple, source), operands[-1]
            own_name = source.rstrip("/").rpartition("/")[2]
            is_above = target.rstrip("/") in ("", ".", "..") or target.endswith("/")
            if host and (not is_above or "*" in own_name):
                self.add(self.folders, simple, target, host)
            if host:
                self.add(self.folders, simple, f"{target}/{own_name}", host)

    def _unpacked(self, simple, name, texts, host):
        """Remember what an archive leaves: the folder it is unpacked in, or the file without its ending."""
        for text in texts:
            if match := re.fullmatch(r"(.+)\.(?:gz|xz|bz2|zst)", text):
                self.add(self.files, simple, match[1], host)
        if name in SINGLE:
            return
        named = [value for flag, value in itertools.pairwise(texts) if flag in FOLDER_FLAGS]
        named += [text.partition("=")[2] for text in texts if text.startswith("--directory=")]
        named += [text[2:] for text in texts if text.startswith(("-C", "-d", "-o")) and len(text) > 2]
        named += [value for flag, value in itertools.pairwise(texts) if re.fullmatch(r"-?[A-Za-z]+C", flag)]
        for folder in named or ["."]:
            self.add(self.folders, simple, folder, host)
            if named:  # later calls need not mistrust everything beside an archive
                self.add(self.unpacked, simple, folder, host)

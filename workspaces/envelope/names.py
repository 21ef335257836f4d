"""The names that an envelope lets a program make, replace and remove, while the rest of their folders stays as it is.

A mount over a file keeps it from being removed or replaced, and so does a read-only folder around it. So the folder
becomes writable, and everything else in it is mounted read-only over itself.
"""

import fnmatch
import glob
import os
import re

from . import landlock, places

WILDCARD = re.compile(r"[*?\[]")
BELOW = "/**"  # what is below a folder, or with `/NAME` behind it what of that has a name
MAX_BESIDE = 2000  # entries beside the opened names: each costs a mount
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # a program has its own there
REMOVE = landlock.REMOVE_FILE | landlock.REMOVE_DIR | landlock.REFER


class CannotOpen(Exception):
    """A name cannot be opened; the text says why."""


class Names:
    """The opened names of one ring, as they are now: `all`, what to mount, and what Landlock must allow.

    `folders` are to be mounted writable, `kept` read-only over themselves, `hidden` masked: those lie in a folder that
    becomes readable for the sake of a new name. `rules` is [(path, rights)]. `watched` is {folder: {name: inode}} of
    the protected folders that had to be opened: no rule keeps other names from being made there (`strays`).
    """

    def __init__(self, envelope, *, workspace, home, writable, readable, found):
        self.workspace, self.home, self.writable, self.readable = workspace, home, writable, readable
        self.sensitive = [*found.protected, *found.secrets]
        named = set(found.named)
        self.effective = [*found.protected, *(path for path in found.secrets if path in named)]
        self.made_below = [path.partition(BELOW)[0] for path in envelope.replaces if BELOW in path]
        self.folders, self.kept, self.hidden, self.rules, self.watched = [], [], [], [], {}
        mounts = _mount_points()
        removed = [place for place in self._meant(envelope.removes, mounts) if _can_be_removed(place, mounts)]
        replaced = self._meant(envelope.replaces, mounts, only=self.effective)
        self.all = list(dict.fromkeys([*removed, *replaced]))
        self.closed = [path for path in found.protected if not covers(self.all, path)]
        opened = {place: self._folder_to_open(place, mounts) for place in self.all}
        self.rules += [(place, landlock.WRITE) for place in self.all]
        self._open({place: folder for place, folder in opened.items() if folder}, set(replaced))

    @property
    def named(self):
        """Return the paths at which, or below which, new ones belong to the call."""
        return [*self.all, *self.made_below]

    def strays(self):
        """Return the paths that have come into the watched folders and that the envelope does not name."""
        found = []
        for folder, before in self.watched.items():
            for name, inode in _entries(folder).items():
                path = f"{folder}/{name}"
                named = covers(self.named, path) or any(covers([path], place) for place in self.all)
                found += [] if named or before.get(name) == inode else [path]
        return found

    def _meant(self, paths, mounts, *, only=None):
        """Return what these paths stand for now: wildcards as the shell expands them, folders on the way followed.

        `only`: the sensitive paths of the workspace that what is below a folder stands for, if not all.
        """
        found = []
        for path in paths:
            matches = [path]
            if BELOW in path:
                matches = self._named_in_folder(path, self.sensitive if only is None else only)
                matches = [match for match in matches if not any(covers([match], mount) for mount in mounts)]
            elif (sign := WILDCARD.search(path)) and not os.path.lexists(path):
                matches = sorted(glob.glob(path))
                self.rules.append((os.path.dirname(path[: sign.start()] + "x"), landlock.READ_DIR))
            found += [self._real(match) for match in matches if not covers([*SCRATCH, *places.DEVICES], match)]
        return found

    def _named_in_folder(self, pattern, sensitive):
        """Return what is below a folder and has the pattern's name; in the workspace that is not writable anyway."""
        top, _, name = pattern.partition(BELOW)
        name = name.lstrip("/")
        if not covers([self.workspace], top):
            self.rules.append((top, landlock.READ_DIR))
            return _matches(top, name) if name else [f"{top}/{entry}" for entry in _entries(top)]
        inside = [path for path in sensitive if path != top and covers([top], path)]
        if not name:
            return inside
        found = []
        for path in inside:
            parts = path[len(top) + 1 :].split("/")
            at = next((at for at, part in enumerate(parts) if fnmatch.fnmatchcase(part, name)), None)
            found += _matches(path, name) if at is None else ["/".join([top, *parts[: at + 1]])]
        return list(dict.fromkeys(found))

    def _real(self, path):
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if real != path and (covers(self.sensitive, real) or not covers(self.writable, real)):
            raise CannotOpen(f"{path} leads through a symlink to {real}, which the call does not name")
        return real

    def _folder_to_open(self, place, mounts):
        """Return the folder that must be opened so that a name can change; None if it is open already."""
        if place == self.workspace:
            return None
        if os.path.isdir(place) and (place in mounts or place == self.home):
            return place  # its content can change, it cannot
        folder = os.path.dirname(place)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        others = [other for other in self.all if other != place]
        if covers(others, folder) or (covers(self.writable, folder) and not covers(self.closed, folder)):
            return None
        tops = [os.path.dirname(top) for top in (self.workspace, self.home) if top]
        if folder == "/" or any(covers([folder], top) for top in tops):
            raise CannotOpen(f"{folder} cannot be opened, so {place} cannot be changed")
        if os.statvfs(folder).f_flag & os.ST_RDONLY or not os.access(folder, os.W_OK | os.X_OK):
            raise CannotOpen(f"{folder} cannot be written here, so {place} cannot be changed")
        return folder

    def _open(self, opened, replaced):
        """Plan mounts and rules for {name: its folder}."""
        replacing = {folder for place, folder in opened.items() if place in replaced}
        way = set()  # from the folders to the outermost one that has to be opened
        for place, folder in opened.items():
            outermost = self._outermost(folder)
            while place != folder and folder != outermost:
                way.add(folder)
                folder = os.path.dirname(folder)
            way.add(outermost)
        self.closed = [path for path in self.closed if path not in way]
        for folder in set(opened.values()):
            self.rules.append((folder, landlock.WRITE if folder in replacing else REMOVE))
        in_place = {folder for place, folder in opened.items() if folder == place}
        for folder in sorted(way - in_place):
            self._keep_rest(folder, way, masks=folder in replacing)

    def _outermost(self, folder):
        """Return the folder up to which all must be writable, after planning its mount."""
        if covers(self.writable, folder):
            return next(path for path in self.closed if covers([path], folder))
        found = self.home if self.home and covers([self.home], folder) else folder
        if found not in self.folders:
            self.folders.append(found)
        return found

    def _keep_rest(self, folder, way, *, masks):
        """Plan that everything in a folder but the opened names stays as it is."""
        beside = _entries(folder)
        if len(beside) > MAX_BESIDE:
            raise CannotOpen(f"{folder} holds more than {MAX_BESIDE:,} entries, too many to open one of them alone")
        if covers(self.writable, folder):
            self.watched[folder] = beside
        for name in beside:
            path = f"{folder}/{name}"
            # Nothing can be mounted over a symlink.
            if path in way or covers(self.all, path) or path in self.writable or os.path.islink(path):
                continue
            self._keep(path, masks=masks)

    def _keep(self, path, *, masks):
        if not masks or covers(self.readable, path):
            self.kept.append(path)
        elif any(covers([path], place) for place in self.readable):
            self.kept.append(path)
            for name in _entries(path):
                if not os.path.islink(f"{path}/{name}") and f"{path}/{name}" not in self.writable:
                    self._keep(f"{path}/{name}", masks=True)
        else:
            self.hidden.append(path)


def covers(tops, path):
    """Return whether a path is one of some others, or below one."""
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)


def _can_be_removed(place, mounts):
    """Return whether something is there; raise CannotOpen if it could be removed in part only.

    The error names the outermost mount: the place itself, where it is one.
    """
    for mount in sorted(mounts, key=len):
        if covers([place], mount):
            raise CannotOpen(f"{mount} itself cannot be removed or moved here, only what is in it")
    return os.path.lexists(place)


def _matches(top, name):
    """Return the paths below a folder with such a name, without those below another of them."""
    found = []
    for folder, folders, files in os.walk(top):
        met = [entry for entry in (*folders, *files) if fnmatch.fnmatchcase(entry, name)]
        found += [f"{folder}/{entry}" for entry in met]
        folders[:] = [entry for entry in folders if entry not in met]
    return sorted(found)


def _entries(folder):
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.inode() for entry in entries}
    except OSError:
        return {}


def _mount_points():
    with open("/proc/self/mountinfo", "rb") as file:
        fields = [line.split(b" ")[4] for line in file]
    plain = [re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), field) for field in fields]
    return {os.fsdecode(field) for field in plain}

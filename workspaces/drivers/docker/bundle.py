"""The host's own Python as a folder that can be mounted into any container, independent of its image.

    BUNDLE/bin/python3, lib/pythonX.Y/…   the interpreter and the modules that the init needs, at their usual places
    BUNDLE/native/…                       the dynamic loader, as `loader` too, and the shared libraries, with the host's
                                          C library
    BUNDLE/init.pyz                       our init
    BUNDLE/keeper.pyz                     the keeper of a container in gVisor, with the init in it (`inside/`)
    BUNDLE/run/, BUNDLE/once/             mount points for folders of one Run

It is started by its own loader, without the image's ld.so.cache and ld.so.preload (`container.PRELOAD`), so that
nothing is loaded from the image. It is made once for each interpreter and init, in a temporary folder that is then
renamed.
"""

import hashlib
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..base import DriverError
from ..program_archive import INIT, archive, init_archive, init_modules, write_program

LOADER = "loader"  # its name is the same on every host
AT = "/.handrail"  # mount point in containers
HERE = Path(__file__).parent
# Finds everything that the init loads, including the modules it loads only to print a traceback.
GATHER = """
import io, json, os, runpy, sys, traceback
runpy.run_path(sys.argv[1], run_name="bundled")
sys.path.insert(0, sys.argv[1])
import init.held_programs  # the init loads it when the first program in a ring is started
# For Handrail's hook and its client of agents (own_programs.py).
import _json, _socket, _thread, importlib.util, itertools, json, queue, resource, select, signal, subprocess, threading
import binascii, time, uuid
try:  # for the filter of git-lfs's files (provisioning/git/lfs_filter.py)
    import _sha2
except ImportError:
    import _sha256
try:
    raise ValueError
except ValueError:
    traceback.print_exc(file=io.StringIO())
found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
found |= {os.__file__, sys.modules["encodings"].__file__}
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
print(json.dumps({
    "program": os.readlink("/proc/self/exe"),
    "prefix": sys.base_prefix,
    "modules": sorted(name for name in found if name and not name.startswith(sys.argv[1])),
    "loader": [path for path in mapped if os.path.basename(path).startswith(("ld-", "ld.so", "ld64."))],
    "dynload": os.path.join(sys.base_prefix, sys.platlibdir, "python%d.%d" % sys.version_info[:2], "lib-dynload"),
}))
"""


def find_or_make(cache: Path) -> Path:
    """Return the bundle's folder below `cache`, made if needed; DriverError if this host's Python cannot be bundled."""
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    place = cache / f"init-{_key(program)}"
    if not place.is_dir():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=cache) as fresh:
            made = Path(fresh, "bundle")
            try:
                _make(program, made)
                os.rename(made, place)
            except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
                if not place.is_dir():  # else another process made it first
                    raise DriverError(f"This host's Python cannot be shown in a container: {error}") from error
    return place


def command(at: str, program: str = "init.pyz") -> list[str]:
    """Return the command that starts a program of the bundle where it is mounted at `at`; append its arguments."""
    return [*python(at), "-I", "-S", "-B", "-X", "utf8", f"{at}/{program}"]


def keeper_modules() -> dict[str, Path]:
    """Return {name in the keeper's archive: source}."""
    remote = HERE.parent / "remote"
    shared = ("base_agent", "base_keeper", "conversations", "kept_output", "kernel", "link", "mux")
    own = {path.name: path for path in sorted((HERE / "inside").glob("*.py"))}
    return own | {f"{name}.py": remote / f"{name}.py" for name in shared} | init_modules()


def python(at: str) -> list[str]:
    """Return the words that start the bundle's Python where it is mounted at `at`."""
    return [f"{at}/native/{LOADER}", "--inhibit-cache", "--library-path", f"{at}/native", f"{at}/bin/python3"]


def _key(program: Path) -> str:
    """Return a hash of the interpreter, the init and this module, which names the bundle."""
    state = program.stat()
    parts = (sys.version, str(program), state.st_size, state.st_mtime_ns)
    sources = [*keeper_modules().values(), INIT / "__main__.py", Path(__file__)]
    content = "\n".join(map(str, parts)).encode() + b"".join(path.read_bytes() for path in sources)
    return hashlib.sha256(content).hexdigest()[:16]


def _make(program: Path, place: Path) -> None:
    place.mkdir()
    write_program(place / "init.pyz", init_archive())
    write_program(place / "keeper.pyz", archive(keeper_modules()))
    gathered = subprocess.run(
        [program, "-I", "-S", "-c", GATHER, place / "init.pyz"], capture_output=True, text=True, timeout=60, env={}
    )
    if gathered.returncode != 0:
        raise ValueError(gathered.stderr.strip()[-300:])
    found = json.loads(gathered.stdout)
    prefix, loader = Path(found["prefix"]), found["loader"][0]
    for folder in ("bin", "native", "run", "once", os.path.relpath(found["dynload"], prefix)):
        (place / folder).mkdir(parents=True, exist_ok=True)
    _copy(found["program"], place / "bin" / "python3", 0o755)
    for name in (os.path.basename(loader), LOADER):
        _copy(loader, place / "native" / name, 0o755)
    objects = [found["program"]]
    for module in map(Path, found["modules"]):
        target = place / module.relative_to(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(module, target)
        if module.suffix == ".py":
            # Unchecked: the source cannot change, and a copy need not preserve the timestamp.
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(target), doraise=True, invalidation_mode=mode)
        else:
            objects.append(module)
    for name, library in _libraries(loader, objects).items():
        _copy(library, place / "native" / name)
    for folder, _, _ in os.walk(place):
        os.chmod(folder, 0o755)


def _copy(source, target: Path, mode: int = 0o644) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def _libraries(loader: str, objects: list) -> dict[str, str]:
    """Return {soname: file} of all shared libraries that these objects need."""
    found = {}
    for path in objects:
        listed = subprocess.run([loader, "--list", path], capture_output=True, text=True, timeout=20, check=True)
        found |= dict(re.findall(r"^[ \t]*([^\s/]+) => (/\S+)", listed.stdout, re.MULTILINE))
    return found

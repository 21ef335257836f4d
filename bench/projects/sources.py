"""Real projects from their package registries, with what their tests need, fetched by the registries' own clients."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A project: how its files are fetched into a new folder, and what an agent would run in it."""

    name: str
    fetch: Callable[[Path], None]
    commands: list[str]


def run(*command, cwd: Path | None = None):
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def unpack(archive: Path, folder: Path):
    """Unpack an archive with one folder in it as `folder`."""
    folder.mkdir()
    run("tar", "-xf", str(archive), "--strip-components=1", "--no-same-owner", "-C", str(folder))


def itsdangerous(folder: Path):
    """Fetch a Python library, with pytest and what its tests import beside it."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as aside:
        run(*pip, "download", "--no-deps", "--no-binary", ":all:", "-d", aside, "itsdangerous==2.2.0")
        [archive] = Path(aside).glob("*.tar.gz")
        unpack(archive, folder)
    run(*pip, "install", "--target", str(folder / "deps"), "pytest", "freezegun")


def deep_equal(folder: Path):
    """Fetch a Node library with its development dependencies."""
    with tempfile.TemporaryDirectory() as aside:
        run("npm", "pack", "--silent", "deep-equal@2.2.3", cwd=Path(aside))
        [archive] = Path(aside).glob("*.tgz")
        unpack(archive, folder)
    run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", cwd=folder)


def zlib(folder: Path):
    """Fetch a C library: its source as Debian has it."""
    with tempfile.TemporaryDirectory() as aside:
        lists = Path(aside, "sources.list.d")
        lists.mkdir()
        for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").iterdir()]:
            if path.is_file():
                text = path.read_text().replace("Types: deb\n", "Types: deb-src\n")
                text = "".join(f"deb-src{line[3:]}" if line[:4] == "deb " else line for line in text.splitlines(True))
                (lists / path.name).write_text(text)
        apt = ("-qq", "-o", f"Dir::Etc::sourceparts={lists}", "-o", "Dir::Etc::sourcelist=/dev/null")
        apt += ("-o", f"Dir::State::lists={aside}/lists", "-o", "APT::Sandbox::User=root")
        Path(aside, "lists").mkdir()
        run("apt-get", *apt, "update")
        run("apt-get", *apt, "source", "--download-only", "zlib", cwd=Path(aside))
        [archive] = [path for path in Path(aside).glob("*.orig.tar.*") if path.suffix != ".asc"]
        unpack(archive, folder)


PROJECTS = {
    source.name: source
    for source in (
        Source("itsdangerous", itsdangerous, ["PYTHONPATH=deps:src python3 -m pytest -q -p no:cacheprovider"]),
        Source("deep-equal", deep_equal, ["npx tape 'test/**/*.js'"]),
        Source("zlib", zlib, ["./configure", "make -j2", "make test"]),
    )
}

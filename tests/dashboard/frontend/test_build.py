"""The build hook brings what the pages need, into a checkout and into a wheel, from nothing but a clone."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hatch_build import vendor
from tests.support import CHECKOUT

ABOUT = json.loads((CHECKOUT / "package.json").read_text())
PLACES = {package.removeprefix("@"): names for package, names in ABOUT["vendorFiles"].items()}
VENDORED = {f"{package}/{name}" for package, names in PLACES.items() for name in names}
# Without a system npm the build needs its own, which only an isolated build environment holds.
HOW = ["--no-build-isolation"] if shutil.which("npm") else []


@pytest.fixture
def clone(tmp_path):
    """The repository's files, without what a build leaves behind."""
    target = tmp_path / "clone"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout
    for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        if (CHECKOUT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, target / name)
    assert not (target / "static/vendor").exists()
    return target


def pip(*args):
    done = subprocess.run([sys.executable, "-m", "pip", "-q", *args], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_build_brings_the_named_files_with_their_licences_and_nothing_else(clone):
    before = files_below(clone)
    assert vendor(clone) is True
    expected = VENDORED | {f"{package}/LICENSE" for package in PLACES} | {".lock"}
    assert files_below(clone) - before == {f"static/vendor/{name}" for name in expected}
    assert (clone / "static/vendor/.lock").read_bytes() == (clone / "package-lock.json").read_bytes()


def test_a_second_build_leaves_everything_and_a_missing_file_comes_back(clone):
    vendor(clone)
    before = {path: path.stat().st_mtime_ns for path in (clone / "static/vendor").rglob("*")}
    assert vendor(clone) is False
    assert {path: path.stat().st_mtime_ns for path in (clone / "static/vendor").rglob("*")} == before
    (clone / "static/vendor/xterm/xterm/lib/xterm.mjs").unlink()
    assert vendor(clone) is True
    assert (clone / "static/vendor/xterm/xterm/lib/xterm.mjs").is_file()


def test_a_package_with_another_digest_stops_the_build(clone):
    lock = json.loads((clone / "package-lock.json").read_text())
    packages = lock["packages"]
    fit, search = packages["node_modules/@xterm/addon-fit"], packages["node_modules/@xterm/addon-search"]
    fit["integrity"] = search["integrity"]
    (clone / "package-lock.json").write_text(json.dumps(lock))
    with pytest.raises(subprocess.CalledProcessError):
        vendor(clone)
    assert not (clone / "static/vendor/.lock").exists()


def test_a_wheel_from_a_clone_holds_pages_styles_scripts_and_packages(clone, tmp_path):
    pip("wheel", "--no-deps", *HOW, "-w", str(tmp_path / "wheels"), str(clone))
    (wheel,) = (tmp_path / "wheels").glob("handrail-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    needed = {f"dashboard/static/vendor/{name}" for name in VENDORED}
    needed |= {"dashboard/static/css/tokens.css", "dashboard/static/js/card.js", "dashboard/templates/base.html"}
    needed |= {f"dashboard/locale/de/LC_MESSAGES/{domain}.mo" for domain in ("django", "djangojs")}
    assert needed - packed == set()
    assert [name for name in packed if "fortnight" in name or "styleguide" in name] == []


def test_an_editable_install_fills_the_checkout(clone, tmp_path):
    # Without --ignore-installed pip removes the installation that these tests run with.
    pip("install", "--no-deps", "--ignore-installed", *HOW, "--prefix", str(tmp_path / "prefix"), "-e", str(clone))
    assert {f"static/vendor/{name}" for name in VENDORED} - files_below(clone) == set()


def test_the_lock_names_every_package_by_its_digest_and_no_address():
    lock = (CHECKOUT / "package-lock.json").read_text()
    packages = {name: entry for name, entry in json.loads(lock)["packages"].items() if name}
    named = {f"node_modules/{name}" for name in ABOUT["dependencies"]}
    wanted = {f"node_modules/{name}" for entry in packages.values() for name in entry.get("dependencies", {})}
    assert set(packages) == named | wanted
    assert {f"node_modules/{name}" for name in ABOUT["vendorFiles"]} <= set(packages)
    assert [name for name, entry in packages.items() if not entry["integrity"].startswith("sha512-")] == []
    assert "://" not in lock

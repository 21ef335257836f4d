"""The German texts: none is missing, none lost a placeholder, and they are those of the code."""

import os
import re
import shutil
import subprocess
import sys

import polib
import pytest

from hatch_build import compile_translations
from tests.support import CHECKOUT

CATALOGUES = ["django", "djangojs"]
WHERE = CHECKOUT / "locale/de/LC_MESSAGES"
PLACES = re.compile(r"%\(\w+\)s|\{\w*\}|%%|<[^>]+>")
WALKED = ("approvals", "dashboard", "workspaces", "templates", "static/js")


def entries(domain) -> polib.POFile:
    return polib.pofile(str(WHERE / f"{domain}.po"))


def said(entry) -> list[tuple[str, str]]:
    """Each text with its translation."""
    if not entry.msgid_plural:
        return [(entry.msgid, entry.msgstr)]
    return [(entry.msgid, entry.msgstr_plural[0]), (entry.msgid_plural, entry.msgstr_plural[1])]


@pytest.mark.parametrize("domain", CATALOGUES)
def test_every_text_is_translated(domain):
    found = [entry for entry in entries(domain) if entry.obsolete or entry.fuzzy or not all(t for _, t in said(entry))]
    assert found == []


@pytest.mark.parametrize("domain", CATALOGUES)
def test_a_translation_keeps_placeholders_tags_and_edges(domain):
    for entry in entries(domain):
        for text, translated in said(entry):
            if entry.msgid_plural and text == entry.msgid and "%(n)s" not in translated:
                continue  # "an agent" may say the number in a word
            assert sorted(PLACES.findall(text)) == sorted(PLACES.findall(translated)), (text, translated)
            assert text[:1].isspace() == translated[:1].isspace(), text
            assert text[-1:].isspace() == translated[-1:].isspace(), text


def test_the_catalogues_hold_exactly_the_texts_of_the_code(tmp_path, require):
    if shutil.which("xgettext") is None:
        require("gettext", "xgettext is missing; apt-get install gettext")
    for name in WALKED:
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    shutil.copytree(WHERE, tmp_path / "locale/de/LC_MESSAGES", ignore=shutil.ignore_patterns("*.mo"))
    for domain in CATALOGUES:
        call = [sys.executable, str(CHECKOUT / "manage.py"), "makemessages", "--all", "--domain", domain]
        done = subprocess.run(
            [*call, "--no-location", "--no-obsolete", "--no-wrap", "--verbosity", "0"],
            cwd=tmp_path,
            env=os.environ | {"HANDRAIL_HOME": str(tmp_path / "home"), "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        now = polib.pofile(str(tmp_path / f"locale/de/LC_MESSAGES/{domain}.po"))
        found = {(entry.msgctxt, entry.msgid, entry.msgid_plural) for entry in now}
        known = {(entry.msgctxt, entry.msgid, entry.msgid_plural) for entry in entries(domain)}
        assert found - known == set(), "make messages, then translate"
        assert known - found == set(), "make messages"


def test_the_build_compiles_them_without_gettext(tmp_path):
    shutil.copytree(WHERE, tmp_path / "locale/de/LC_MESSAGES", ignore=shutil.ignore_patterns("*.mo"))
    compile_translations(tmp_path)
    for domain in CATALOGUES:
        compiled = tmp_path / f"locale/de/LC_MESSAGES/{domain}.mo"
        assert len(polib.mofile(str(compiled))) == len(entries(domain))
        assert compiled.read_bytes() == (WHERE / f"{domain}.mo").read_bytes(), "make setup compiles them"

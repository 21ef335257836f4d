"""Read single settings from the text of a repository's configuration; what it includes is not read."""

import re

_SECTION = re.compile(rb'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"(?:[^"\\\n]|\\.)*"\s*)?\]')
_SETTING = re.compile(rb"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=([^\n]*))?")
TRUE = ("", "true", "yes", "on", "1")


def settings_of(text: bytes) -> dict[str, str]:
    """Return {"section.name" in lower case: the last value, "" for a setting without one}; subsections are left out."""
    found: dict[str, str] = {}
    section = ""
    for line in text.split(b"\n"):
        if head := _SECTION.match(line):
            section, line = ("" if b'"' in head[0] else head[1].decode().lower()), line[head.end() :]
        if section and (setting := _SETTING.match(line)):
            found[f"{section}.{setting[1].decode().lower()}"] = _value(setting[2] or b"")
    return found


def _value(text: bytes) -> str:
    plain = re.split(rb"[#;]", text, maxsplit=1)[0] if b'"' not in text else text
    return plain.replace(b'"', b"").strip().decode("utf-8", "replace").lower()

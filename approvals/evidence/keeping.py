"""Serialize evidence to keep it with a decision: what a person saw must not change with the files."""

import json
import zlib
from dataclasses import asdict

from django.utils.safestring import mark_safe

from workspaces.changes.diff import FileDiff, Hunk, Line

from .findings import Evidence, Finding


def pack(evidence: Evidence) -> bytes:
    return zlib.compress(json.dumps(asdict(evidence)).encode())


def unpack(body: bytes) -> Evidence:
    told = json.loads(zlib.decompress(bytes(body)))
    told["diff"] = told["diff"] and _diff(told["diff"])
    told["others"] = [_diff(other) for other in told.get("others", [])]
    told["findings"] = [_finding(finding) for finding in told["findings"]]
    return Evidence(**told)


def _finding(told: dict) -> Finding:
    diffs = {name: _diff(value) for name, value in told.items() if isinstance(value, dict) and "hunks" in value}
    return Finding(**(told | diffs))


def _diff(told: dict) -> FileDiff:
    hunks = [Hunk(hunk["heading"], [_line(line) for line in hunk["lines"]]) for hunk in told["hunks"]]
    return FileDiff(**(told | {"hunks": hunks}))


def _line(told: dict) -> Line:
    # Safe: workspaces.changes.diff made the markup and escaped the text when the evidence was gathered.
    return Line(**(told | {"html": mark_safe(told["html"])}))

"""Codex's apply_patch: judged as the edits that it names, against what a person wrote down as right for each."""

from pathlib import Path

import pytest

from approvals.evidence.changes import patch_evidence
from approvals.evidence.findings import UNKNOWN
from approvals.policy import Policy, classify, default_policy, load_policy, parse_rule
from approvals.policy.patches import MAX_FILES, BadPatch, read_patch

POLICY = load_policy(default_policy())


def rows():
    """(patch, tier, title, undo, evidence) of each entry of patches.txt."""
    found, patch = [], []
    for line in (Path(__file__).parent / "patches.txt").read_text().splitlines():
        if line.startswith("$ "):
            patch.append(line.removeprefix("$ "))
        elif line.startswith("  "):
            found.append((wrapped("\n".join(patch)), *(part.strip() for part in line.split("|"))))
            patch = []
    return found


def wrapped(text):
    return f"*** Begin Patch\n{text}\n*** End Patch"


def evidence(arguments):
    found = patch_evidence(arguments)
    if found.says == UNKNOWN:
        return ""
    return ", ".join(f"{d.kind} {d.path} +{d.additions} -{d.deletions}" for d in (found.diff, *found.others))


@pytest.mark.parametrize(("patch", "tier", "title", "undo", "says"), rows())
def test_the_evidence_of_each_patch_is_right(patch, tier, title, undo, says):
    arguments = {"command": patch}
    verdict = classify("apply_patch", arguments, policy=POLICY)
    assert (verdict.tier, verdict.title, verdict.undo, evidence(arguments)) == (tier, title, undo, says)


EDIT = "*** Update File: src/app.py\n@@\n-x\n+y"
BOTH = f"{EDIT}\n*** Delete File: docs/old.md"


@pytest.mark.parametrize(
    ("rules", "patch", "tier"),
    [
        ({"low": ["Edit(src/**)"]}, EDIT, "low"),
        ({"low": ["Edit(src/**)"]}, BOTH, "high"),  # the other file is nobody's word
        ({"low": ["Edit(src/**)", "Edit(docs/**)"]}, BOTH, "low"),
        ({"forbidden": ["Edit(docs/**)"]}, BOTH, "forbidden"),
        ({"critical": ["Write(docs/**)"], "low": ["Edit(**)"]}, BOTH, "critical"),
        ({"low": ["Edit(**)"]}, "*** Add File: .git/config\n+x", "high"),
        ({"low": ["apply_patch"]}, EDIT, "low"),
        ({"low": ["apply_patch"]}, "*** Add File: ../x\n+x", "high"),
    ],
)
def test_rules_for_files_hold_for_each_file_of_a_patch(rules, patch, tier):
    policy = Policy(mode="everything")
    policy.rules |= {name: [parse_rule(rule) for rule in listed] for name, listed in rules.items()}
    assert classify("apply_patch", {"input": wrapped(patch)}, policy=policy).tier == tier


def test_a_symlink_on_the_way_leads_where_it_leads():
    context = {"symlinks": {"docs": "/etc"}}
    verdict = classify("apply_patch", {"input": wrapped("*** Add File: docs/x\n+x")}, policy=POLICY, context=context)
    assert (verdict.tier, verdict.reasons) == ("high", ["Needs approval: docs/x is outside the workspace."])


def test_hidden_characters_in_what_it_adds_ask():
    verdict = classify("apply_patch", {"input": wrapped("*** Add File: a.py\n+x = '\u202e'")}, policy=POLICY)
    assert verdict.reasons == ["Needs approval: the new text holds a hidden character, U+202E."]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": wrapped(EDIT), "input": wrapped(EDIT)},
        {"command": wrapped(EDIT), "workdir": "/"},
        {"command": EDIT},
        {"command": f"cd / && {wrapped(EDIT)}"},
        {"command": ["bash", wrapped(EDIT)]},
        {"command": wrapped("*** Update File:  src/app.py\n@@\n+x")},
        {"command": wrapped("*** Add File: a\n*** Move to: b\n+x")},
        {"command": wrapped("*** Add File: a\n+x\n") + "\n*** Add File: b\n+y"},
        {"command": wrapped("\n".join(f"*** Add File: f{n}\n+x" for n in range(MAX_FILES + 1)))},
    ],
)
def test_an_ambiguous_patch_asks(arguments):
    with pytest.raises(BadPatch):
        read_patch(arguments)
    assert classify("apply_patch", arguments, policy=POLICY).tier == "high"


def test_only_a_newline_ends_a_line():
    (edit,) = read_patch({"command": wrapped("*** Add File: a\n+x\u2028*** Delete File: b\x0c*** Delete File: c")})
    assert (edit.path, edit.added) == ("a", "x\u2028*** Delete File: b\x0c*** Delete File: c")


def test_a_patch_of_many_files_names_a_few_reasons():
    patch = wrapped("\n".join(f"*** Add File: f{n}\n+x" for n in range(9)))
    verdict = classify("apply_patch", {"input": patch}, policy=POLICY)
    assert len(verdict.reasons) == 6
    assert verdict.reasons[-1] == "Auto-approved: 4 more of its files as well."
    assert len(verdict.commands) == 9

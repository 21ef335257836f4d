"""Every reader of text that others write takes time in proportion to its length, whatever the shape of the text.

Seconds of the thread's processor time are compared, of 4 KB and of 64 KB of the same shape: a quadratic reader takes
256 times as long for the longer one, a linear one 16 times. What meets whole texts reads 1 MB, too.
"""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from approvals.agent_runs.definitions import documents
from approvals.agents.claude_code import transcript as claude_code
from approvals.agents.codex import transcript as codex
from approvals.agents.gemini import dialect as gemini
from approvals.evidence import patches as shown_patches
from approvals.hooks import tool_output
from approvals.pages import alike_groups, plan_markdown, revised
from approvals.policy import deeds, hidden_characters, patches
from approvals.policy.patches import BadPatch
from approvals.policy.programs import sql_titles
from dashboard import logs
from dashboard.event_log import sentences
from dashboard.people import sessions
from dashboard.problems import Problem
from dashboard.site import invitations, search_text
from dashboard.templatetags import handrail as tags
from dashboard.text import strict_json, visible_text
from tests.support.shapes import shapes
from workspaces.changes import diff, word_marks
from workspaces.changes.diff import readable, tables
from workspaces.code_hosts import answers as code_host_answers
from workspaces.code_hosts import base as code_host_addresses
from workspaces.code_hosts.base import Refused
from workspaces.drivers import box
from workspaces.drivers.sandbox import driver as sandbox
from workspaces.egress import http_head, names
from workspaces.envelope import output_refusals
from workspaces.git_files import patterns as ignore_patterns
from workspaces.manifests import git_state
from workspaces.provisioning import devcontainer, images
from workspaces.provisioning.git import credentials, output, pushing
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.repository_files import handrail_toml, others
from workspaces.runner import redacted_files
from workspaces.runner.installed import packages
from workspaces.secrets import masking
from workspaces.services import git_remotes, metadata, pull_request_templates
from workspaces.services.schedules import cron
from workspaces.shim.redact import Redactor


def data_of(text):
    return text.encode("utf-8", "surrogateescape")


async def request(text):
    reader = asyncio.StreamReader(limit=http_head.MAX_HEAD_BYTES)
    reader.feed_data(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + data_of(text) + b"\r\n\r\n")
    reader.feed_eof()
    return await http_head.read_request(reader)


def redacted(text):
    redactor = Redactor([("ONE", "00000000"), ("TWO", "aaaaaaaaaa"), ("THREE", '[{"a":[{"a":')])
    data = data_of(text)
    return b"".join([redactor.feed(data[at : at + 65536]) for at in range(0, len(data), 65536)]) + redactor.flush()


def git_configuration(text):
    for line in text.split("\n"):
        if git_state.SECTION.fullmatch(line) is None:
            git_state.SETTING.fullmatch(line)


def of_claude(text):
    row = {"type": "user", "uuid": "u", "message": {"content": [{"type": "text", "text": text}]}}
    return claude_code.read(row, {})


def of_codex(text):
    payload = {"type": "function_call_output", "call_id": "c", "output": text}
    return codex.read({"type": "response_item", "payload": payload}, {})


def complaints(text):
    for scheme in ("https", "ssh"):
        source = Git("a", "", scheme, "h.test", 22)
        for more in ("", f" {credentials._UNREAD}"):
            credentials.complaint(source, credentials.Credential(token="t"), text + more)


def refused_push(text):
    push = pushing.Push(Path(), Git("a", ""), "main")
    push._status(text)
    push._refused(pushing.CloneFailed(""), f"[remote rejected] ({text}")


# What reads text of others, by what it is.
READERS = {
    "output: refusals": lambda text: output_refusals.refusals_in(data_of(text)),
    "output: secrets": redacted,
    "output: shown": visible_text.visible,
    "output: shown on one line": lambda text: visible_text.visible(text, one_line=True),
    "output: as it reads": visible_text.as_it_reads,
    "output: folded": visible_text.fold,
    "output: hidden characters": visible_text.hidden_note,
    "output: found": lambda text: search_text._line_with(data_of(text), [b"zq", b"a"]),
    "output: of a recording, as text": lambda text: search_text.ESCAPES.sub(b"", data_of(text)),
    "output: why bubblewrap failed": sandbox.explanation,
    "output: marked": lambda text: tags.marked_line(text, ["zq", "a"]),
    "hook: masked": lambda text: masking.without_keys(text),
    "hook: exit code": tool_output.EXIT_CODE.match,
    "hook: an address in a prompt": gemini._only_address,
    "hook: strict JSON": lambda text: strict_json.loads(data_of(text)),
    "hook: strict JSON of one text": lambda text: strict_json.loads(json.dumps({"a": text}).encode()),
    "hook: hidden characters": hidden_characters.hidden_in,
    "transcript of Claude Code": of_claude,
    "transcript of Codex": of_codex,
    "diff: of two contents": lambda text: diff.compare("x", data_of(text), data_of(f"{text[9:]}b\n")),
    "diff: of one content": lambda text: diff.compare("x", None, data_of(text)),
    "diff: in a patch": shown_patches.diffs_of,
    "diff: words": lambda text: word_marks.spans(text, text[1:]),
    "diff: revised words": lambda text: revised.word_diff(text, text[1:]),
    "diff: notebook": lambda text: readable.readable("a.ipynb", data_of(text), None),
    "diff: table": lambda text: tables.delimiter_of("a.csv", data_of(text)),
    "diff: cells": lambda text: tables._cells(text, ","),
    "card: plan": plan_markdown.blocks_of,
    "card: alike": lambda text: alike_groups._form("command", text[: alike_groups.MAX_SHOWN]),
    "card: money": lambda text: deeds.deed("s", "create_charge", {"amount": text, "title": text}),
    "card: statement": sql_titles.sql_title,
    "card: statement that changes data": sql_titles.changes_data,
    "card: applied patch": lambda text: patches.read_patch({"input": f"*** Begin Patch\n{text}\n*** End Patch"}),
    "log: details": lambda text: sentences.details({"reason": text, "until": text, "sha256": text}),
    "log: lines": lambda text: logs._SECRET.sub(r"\1…", text),
    "name: of a host": lambda text: names.host_and_port(text, 443),
    "name: of an image": images.REFERENCE.fullmatch,
    "name: labels": metadata.read_labels,
    "name: people": invitations.read_list,
    "name: a browser": sessions.device_name,
    "name: installed": lambda text: (packages.of_folder(text[:4096]), packages.of_file(text[:4096], bytes)),
    "configuration: devcontainer": devcontainer.read,
    "configuration: handrail.toml": lambda text: handrail_toml.read("handrail.toml", data_of(text)),
    "configuration: copilot": lambda text: others.read_copilot("x", data_of(text)),
    "configuration: cursor": lambda text: others.read_cursor("x", data_of(text)),
    "configuration: an agent": lambda text: documents.parsed(data_of(f"a: {text}")),
    "configuration: secrets": lambda text: redacted_files.values_in(text[: redacted_files.MAX_BYTES], ".env"),
    "git: configuration": git_configuration,
    "git: ignore file": lambda text: ignore_patterns.parse(data_of(text)),
    "git: address of a remote": git_remotes.repository_of,
    "git: address of a host": lambda text: (
        code_host_addresses.repository_of(text),
        code_host_addresses.origin_of(text),
    ),
    "git: address on a page": code_host_answers.web_address,
    "git: credentials in settings": lambda text: box.CREDENTIAL.search(data_of(text)[: box.MAX_SETTINGS]),
    "git: what a host said": lambda text: (output.remote_lines(f"remote:{text}"), output.sentence(text, 1)),
    "git: lines that a host said": lambda text: output.remote_lines(text.replace("\n", "\nremote:")),
    "git: whether a host let Handrail in": complaints,
    "git: why a host took no branch": refused_push,
    "git: template of pull requests": lambda text: pull_request_templates.filled(f"# {text}", "a"),
    "git: template of pull requests with comments": lambda text: pull_request_templates.filled(f"# a\n<!--{text}", "a"),
    "cron": lambda text: cron.check(text, "UTC"),
    "egress: head": lambda text: asyncio.run(request(text)),
}

# Those that meet the whole of a text, in the runner or beside web's loop; the others cut it first or run in a process.
WHOLE = (
    "output: refusals",
    "output: secrets",
    "output: as it reads",
    "output: folded",
    "output: found",
    "hook: masked",
    "hook: exit code",
    "hook: strict JSON of one text",
    "transcript of Claude Code",
    "transcript of Codex",
    "log: lines",
    "git: ignore file",
)
SMALL, LARGE, MEGABYTE = 1 << 12, 1 << 16, 1 << 20
TIMES = 60  # as long for a text of sixteen times the length: linear is 16, quadratic 256
LEAST_S = 0.005  # shorter times say nothing
MOST_S = 1.0  # of the processor for a megabyte: five times what a step on a loop may take, for a machine that is slow


def seconds(reader, text) -> float:
    """Return how much of the processor the reader took, whether it read the text or refused it."""
    before = time.thread_time()
    try:
        reader(text)
    except (Problem, ValidationError, ValueError, BadPatch, Refused, http_head.BadHead):
        pass
    return time.thread_time() - before


def test_there_are_sixty_shapes():
    found = shapes(SMALL)
    assert len(found) >= 60
    assert all(SMALL * 0.9 < len(text) <= SMALL * 1.4 for text in found.values())


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_time_in_proportion(name):
    reader, small = READERS[name], shapes(SMALL)
    seconds(reader, "a")  # imports, and tables that are built once
    for shape, text in shapes(LARGE).items():
        short, long = seconds(reader, small[shape]), seconds(reader, text)
        assert long <= TIMES * max(short, LEAST_S), f"{shape}: {short:.4f} s of {SMALL}, {long:.2f} s of {LARGE}"


@pytest.mark.parametrize("name", WHOLE)
def test_a_megabyte_of_any_shape_holds_nothing_up(name):
    for shape, text in shapes(MEGABYTE).items():
        assert seconds(READERS[name], text) <= MOST_S, shape


def test_a_reader_that_goes_back_is_found():
    short, long = (seconds(re.compile(r"0+x").search, "0" * size) for size in (SMALL, LARGE))
    assert long > TIMES * max(short, LEAST_S)

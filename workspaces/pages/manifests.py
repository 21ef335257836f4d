"""Manifests: as a table beside what is so now, as a download, and any two of a team compared."""

import json
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from dashboard.keys import log_key
from dashboard.problems import Problem
from dashboard.web.pages import Slice, parameters, signed_in
from workspaces.manifests import body, keep
from workspaces.manifests.compare import OWN, differences, files_of
from workspaces.models import Manifest, Run, Workspace
from workspaces.pages.header import find, load_header

LISTED = 30  # files of one property that are listed
RECENT = 100  # manifests that the comparison suggests

# (name in the manifest, label), in the order of the page; what is not named follows.
WORDS = {
    "cause": gettext_lazy("Caused by"),
    "at": gettext_lazy("Time"),
    "repository": gettext_lazy("Repository"),
    "ref": gettext_lazy("Requested branch or SHA"),
    "source_sha": gettext_lazy("Source commit"),
    "git": gettext_lazy("Branch and commit"),
    "upstream": gettext_lazy("Upstream"),
    "dirty": gettext_lazy("Not committed"),
    "submodules": gettext_lazy("Submodules"),
    "lock_files": gettext_lazy("Lock files (SHA-256)"),
    "set_up_out_of_date": gettext_lazy("Lock files changed since setup"),
    "environment": gettext_lazy("Environment"),
    "image": gettext_lazy("Image"),
    "image_digest": gettext_lazy("Image digest"),
    "machine_image": gettext_lazy("Machine image"),
    "setup_sha256": gettext_lazy("Setup script"),
    "setup_layer": gettext_lazy("Setup layer"),
    "checks": gettext_lazy("Last checks"),
    "ports": gettext_lazy("Open ports"),
    "services": gettext_lazy("Running services"),
    "secrets": gettext_lazy("Secrets given"),
    "notes": gettext_lazy("Notes that were read"),
    "proof": gettext_lazy("Comparison with the snapshot"),
    "memory": gettext_lazy("Memory"),
    "drift": gettext_lazy("Differs from its environment"),
    "parent": gettext_lazy("Snapshot before"),
    "parent_tree": gettext_lazy("Tree of the snapshot before"),
    "entries": gettext_lazy("Entries"),
    "bytes": gettext_lazy("Bytes"),
    "skipped": gettext_lazy("Left out"),
    "not_kept": gettext_lazy("Could not be kept"),
    "ignored": gettext_lazy("Ignored by the environment"),
    "disk_generation": gettext_lazy("Disk generation"),
    "tree": gettext_lazy("Tree"),
}
UNTOLD = {"format", "workspace", "snapshot", "kind", "label", "run", "resumed_at"}  # the heading says them


@dataclass(frozen=True)
class Fact:
    """One row of the table; `other` has the lines of the other side, None if it is the same there."""

    words: str
    lines: list[str]
    other: list[str] | None = None


def facts_of(told: dict, other: dict | None = None) -> list[Fact]:
    """Return the rows for a manifest's body, compared with `other` if there is one."""
    differ = differences(told, other) if other is not None else {}
    names = [*WORDS, *(name for name in told if name not in WORDS and name not in UNTOLD)]
    found = []
    for name in names:
        if name in differ or told.get(name) not in (None, "", {}, []):
            words = WORDS.get(name) or name.replace("_", " ").capitalize()
            lines = lines_of(name, told.get(name))
            found.append(Fact(words, lines, lines_of(name, other[name]) if name in differ else None))
    return found


def lines_of(name: str, value) -> list[str]:
    """Return a property's value as lines for people."""
    if value in (None, "", {}, []):
        return [gettext("none")]
    if name in ("dirty", "lock_files") and isinstance(value, dict | list):
        return _file_lines(value)
    if name == "submodules" and isinstance(value, list):
        return [_submodule_line(item) for item in value[:LISTED]]
    if name == "set_up_out_of_date":
        return [f"{item['path']}: {item['change']}" for item in value[:LISTED]]
    if name == "not_kept":
        return [f"{item['path']}: {item['reason']}" for item in value[:LISTED]]
    if name == "cause" and isinstance(value, dict):
        return _cause_lines(value)
    if name == "checks" and isinstance(value, dict):
        ended = gettext("%(name)s: exit status %(status)s, %(at)s")
        return [ended % {"name": check, "status": end["exit_status"], "at": end["at"]} for check, end in value.items()]
    if isinstance(value, list):
        return [str(item) if name == "ports" and isinstance(item, int) else said(item) for item in value[:LISTED]]
    return [said(value)]


def said(value) -> str:
    if isinstance(value, dict):
        told = {name: str(item) if name == "port" else said(item) for name, item in value.items() if item is not None}
        return ", ".join(f"{name}: {words}" for name, words in told.items())
    if isinstance(value, list):
        return ", ".join(said(item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return gettext("none") if value is None else str(value)


def _file_lines(value) -> list[str]:
    files = files_of(value)
    count = value["count"] if isinstance(value, dict) else len(files)
    lines = [f"{path}: {what}" for path, what in list(files.items())[:LISTED]]
    if count > len(lines):
        lines.append(gettext("and %(n)s more") % {"n": f"{count - len(lines):,}"})
    if isinstance(value, dict) and value["cut_off"]:
        lines.append(gettext("Not complete: %(why)s") % {"why": value["cut_off"]})
    return lines or [gettext("none")]


def _submodule_line(item: dict) -> str:
    told = gettext("%(path)s at %(sha)s") if item["filled"] else gettext("%(path)s at %(sha)s: not filled")
    return told % {"path": item["path"], "sha": item["sha"][:12]}


def _cause_lines(cause: dict) -> list[str]:
    lines = [f"{cause['actor'].get('label', '')} ({cause['actor'].get('type', '')})"]
    if by := cause["actor"].get("approved_by"):
        lines.append(gettext("approved by %(who)s") % {"who": by})
    if cause["action"]:
        lines.append(cause["action"]["number"])
    if cause["operation"]:
        lines.append(cause["operation"]["kind"].replace("_", " "))
    return [*lines, *([cause["command"]] if cause["command"] else [])]


def shown(workspace, manifest: Manifest | None) -> dict:
    """Return what `_manifest.html` needs: the facts beside those of now, and whether the signature is ours."""
    if manifest is None:
        return {"manifest": None}
    return {
        "manifest": manifest,
        "facts": facts_of(manifest.body, body.of_now(workspace)),
        "now_number": workspace.head.number if workspace.head else None,
        "is_signed": keep.is_signed(manifest),
        "public_key": log_key.public_key(),
        "manifest_name": keep.name_of(manifest),
    }


@signed_in
@require_safe
def runs(request, team, key):
    head = load_header(request, team, key, "workspace-snapshots")
    rows = Run.objects.filter(workspace=head.workspace).select_related("manifest")
    page = Slice(request, rows, by="started_at", size=50)
    return render(request, "workspaces/runs.html", {"nav": "workspaces", "head": head, "page": page})


@signed_in
@require_safe
def of_run(request, team, key, pk):
    head = load_header(request, team, key, "workspace-snapshots")
    manifest = _of_run(head.workspace, pk)
    found = {"nav": "workspaces", "head": head, "run": manifest.run} | shown(head.workspace, manifest)
    return render(request, "workspaces/run_manifest.html", found)


def _of_run(workspace, pk) -> Manifest:
    rows = Manifest.objects.select_related("run__workspace")
    return get_object_or_404(rows, run=pk, run__workspace=workspace)


@signed_in
@require_safe
def download_snapshot(request, team, key, number):
    workspace = find(request, team, key)
    rows = Manifest.objects.select_related("snapshot")
    manifest = get_object_or_404(rows, snapshot__workspace=workspace, snapshot__number=number)
    return _download(manifest, f"{key}-{number}.manifest.json")


@signed_in
@require_safe
def download_run(request, team, key, pk):
    return _download(_of_run(find(request, team, key), pk), f"{key}-{pk}.manifest.json")


def _download(manifest: Manifest, name: str) -> HttpResponse:
    text = json.dumps(keep.download_of(manifest), indent=1, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@signed_in
@require_safe
def compare(request):
    """Compare two manifests of one team, named `a` and `b` in the query, over its workspaces."""
    names, told = parameters(request, "a", "b"), {}
    try:
        first, second = _pair(request.caller, names["a"], names["b"])
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        told["problem"] = problem.detail if names["a"] or names["b"] else ""
    else:
        a, b = first.body, second.body
        own = [name for name in WORDS if name in OWN and a.get(name) != b.get(name)]
        told = {
            "first": first,
            "second": second,
            "facts": [fact for fact in facts_of(a, b) if fact.other is not None],
            "own": [Fact(WORDS[name], lines_of(name, a.get(name)), lines_of(name, b.get(name))) for name in own],
        }
    found = {"nav": "workspaces", "names": names, "recent": _recent(request.caller)} | told
    return render(request, "workspaces/manifests_compare.html", found)


def _pair(caller, a: str, b: str) -> tuple[Manifest, Manifest]:
    """Return both manifests. The second is looked for in the team of the first."""
    first = keep.find(caller, a)
    return first, keep.find(caller, b, team_id=(first.snapshot or first.run).workspace.team_id)


def _recent(caller) -> list[str]:
    rows = Manifest.objects.filter(snapshot__workspace__in=Workspace.objects.visible_to(caller).kept())
    newest = rows.select_related("snapshot__workspace").order_by("-snapshot__created_at")[:RECENT]
    return [keep.name_of(manifest) for manifest in newest]

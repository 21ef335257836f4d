"""Write, change and delete comments on lines. A draft is its writer's alone, so no event tells of it."""

from urllib.parse import quote_from_bytes

from approvals.evidence import evidence_of
from approvals.evidence.keeping import unpack
from approvals.line_comments import lines
from approvals.models import Action, DecisionEvidence, LineComment, Revision, Side
from dashboard.database import clock
from dashboard.problems import conflict, invalid, not_allowed, not_found
from dashboard.web import lookup
from workspaces.changes import history
from workspaces.changes.comparisons import Comparison
from workspaces.changes.diff import FileDiff
from workspaces.models import Workspace

MAX_TEXT = 1000  # characters of a comment
MAX_DRAFTS = 100  # of one person in a team


def on_changes(workspace: Workspace, comparison: Comparison, path: bytes, old_path: bytes, points, *, caller, **wish):
    """Write a draft on lines of a file that a workspace's comparison shows. Problem 403, 404, 409, 422.

    `points`: how the page names what it compares. `wish`: side, line, end_line, text.
    """
    _check(caller, workspace.team_id, wish)
    row = comparison.row_of(path, old_path)
    [(row, old, new)] = history.contents(comparison.new.workspace, [row])
    if row.too_large:
        raise invalid("This file is too large to comment on its lines.")
    quote = lines.quoted(lines.of_contents(old, new), wish["side"], wish["line"], wish["end_line"])
    return _write(caller, workspace.team_id, path, quote, wish, workspace=workspace, points=points)


def on_card(action: Action, path: bytes, *, caller, **wish) -> LineComment:
    """Write a draft on lines of a diff that the action's card shows. Problem 403, 404, 409, 422."""
    _check(caller, action.team_id, wish)
    shown = _diff_of_card(action, path)
    if shown is None:
        raise not_found("diff on this card")
    quote = lines.quoted(lines.of_diffs([shown]), wish["side"], wish["line"], wish["end_line"])
    return _write(caller, action.team_id, path, quote, wish, workspace=action.workspace, action=action)


def _diff_of_card(action: Action, path: bytes) -> FileDiff | None:
    """Return the only diff of a path that the action's card shows; None if there is none, or more than one."""
    kept = DecisionEvidence.objects.filter(decision__action=action, decision__final=True).first()
    revision = Revision.objects.filter(action=action).order_by("-number").first()
    evidence = unpack(kept.body) if kept else evidence_of(action, revision)
    every = filter(None, (evidence.diff, *evidence.others))
    found = [diff for diff in every if encoded(diff.path) == quote_from_bytes(path)]
    return found[0] if len(found) == 1 else None


def encoded(path: str) -> str:
    return quote_from_bytes(path.encode("utf-8", "surrogateescape"))


def _check(caller, team_id, wish: dict):
    if not caller.is_person or not caller.can("decide", team_id):
        raise not_allowed("Only a reviewer, lead or admin can comment on lines.")
    if wish["side"] not in Side.values:
        raise invalid("A side is old or new.")
    _check_text(wish["text"])


def _check_text(text: str):
    if not text.strip():
        raise invalid("The comment is empty.")
    if len(text) > MAX_TEXT:
        raise invalid(f"A comment can have at most {MAX_TEXT:,} characters.")


def _write(caller, team_id, path: bytes, quote: str, wish: dict, *, workspace, action=None, points=("", "")):
    if LineComment.objects.drafts_of(caller).filter(team=team_id).count() >= MAX_DRAFTS:
        raise conflict(f"You have {MAX_DRAFTS} drafts. Send or delete some first.")
    return LineComment.objects.create(
        team_id=team_id,
        user=caller.user,
        workspace=workspace,
        action=action,
        path=quote_from_bytes(path),
        side=wish["side"],
        line=wish["line"],
        end_line=wish["end_line"],
        quote=quote,
        text=wish["text"].strip().replace("\0", "␀"),
        from_point=points[0][:80],
        to_point=points[1][:80],
        at=clock.now(),
    )


def find(pk, *, caller) -> LineComment:
    """Return the caller's own draft. Problem 404 for anything else."""
    rows = LineComment.objects.drafts_of(caller).select_related("workspace__team", "action", "user")
    return lookup.find(rows, pk, "draft of yours")


def change(draft: LineComment, text: str):
    """Give the draft another text. Problem 409 if it was sent meanwhile, 422."""
    _check_text(text)
    text = text.strip().replace("\0", "␀")
    if not LineComment.objects.filter(pk=draft.pk, sent_at=None).update(text=text):
        raise conflict("It was sent meanwhile.")
    draft.text = text


def delete(draft: LineComment):
    """Delete the draft. Problem 409 if it was sent meanwhile."""
    if not LineComment.objects.filter(pk=draft.pk, sent_at=None).delete()[0]:
        raise conflict("It was sent meanwhile.")


def of_card(action: Action, caller):
    """Return the caller's drafts that go along with an answer to the action: on its card, and on its workspace."""
    rows = LineComment.objects.drafts_of(caller)
    mine = rows.filter(action=action)
    if action.workspace_id:
        mine = mine | rows.filter(workspace=action.workspace_id, action=None)
    return mine.select_related("workspace__team", "user").order_by("at")


def of_workspace(workspace: Workspace, caller):
    """Return the caller's drafts on the workspace's changes."""
    return LineComment.objects.drafts_of(caller).filter(workspace=workspace, action=None).order_by("at")


def unsent_of(user):
    """Return the drafts of a person in all teams."""
    return LineComment.objects.filter(user=user, sent_at=None)

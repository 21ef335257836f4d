"""Search and query the output of a command, or a file, where it is kept."""

from typing import Annotated, Literal

from ninja import Query, Router, Schema, Status
from pydantic import Field, StringConstraints

from dashboard.web.api_base import PROBLEMS
from workspaces.api.commands import find_command
from workspaces.api.lookup import find
from workspaces.api.schemas import Strict
from workspaces.changes import history
from workspaces.lifecycle import activity
from workspaces.programs.kept_text import asking
from workspaces.services import kept_text

router = Router()

Snapshot = Annotated[int | None, Field(ge=1, le=2**31 - 1, description="its number; else the files as they are now")]
Path = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class SearchWish(Strict):
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=asking.MAX_PATTERN)] = Field(
        description="a regular expression, as Python's re has it"
    )
    fixed: bool = Field(False, description="the pattern is the text itself")
    ignore_case: bool = False
    before: int = Field(0, ge=0, le=asking.MAX_AROUND, description="lines before each line that matches")
    after: int = Field(0, ge=0, le=asking.MAX_AROUND, description="lines after each line that matches")
    limit: int = Field(100, ge=1, le=asking.MAX_LINES, description="lines that match")
    from_line: int = Field(1, ge=1, le=2**53, description="where to begin: `more_from` of the answer before")


class FileSearchWish(SearchWish):
    path: Path
    snapshot: Snapshot = None


class QueryWish(Strict):
    sql: Annotated[str, StringConstraints(min_length=1, max_length=asking.MAX_SQL)] = Field(
        description="one SELECT of SQLite, from the table `output`, or `file` of a file"
    )
    format: Literal["auto", "csv", "tsv", "jsonl", "lines"] = Field(
        "auto", description="how the text is a table; lines: one row for each line, with `n` and `text`"
    )
    first_line: int = Field(1, ge=1, le=asking.MAX_FIRST_LINE, description="of the table: the header of a CSV or TSV")
    limit: int = Field(100, ge=1, le=asking.MAX_ROWS, description="rows of the answer")


class FileQueryWish(QueryWish):
    path: Path
    snapshot: Snapshot = None


class FoundLine(Schema):
    n: int = Field(description="its number in the text, from 1")
    text: str = Field(description="at most 2,000 characters of it; bytes that are no UTF-8 are U+FFFD")
    column: int = Field(description="how many characters of the line come before `text`")
    length: int = Field(description="characters of the whole line")
    matches: list[tuple[int, int]] = Field(description="begin and end in `text` of each match; none: a line around one")


class FoundLines(Schema):
    lines: list[FoundLine]
    found: int = Field(description="the number of lines in the answer that match")
    more_from: int | None = Field(description="the line to go on from, as `from_line`; null if there is no more")


class TableOut(Schema):
    name: str
    format: str
    columns: list[str]
    rows: int
    left_out: int = Field(
        description="lines that are no row: other fields than the header, no JSON object, cut by a gap"
    )
    gaps: int = Field(description="places at which some of the output was not kept")


class Selected(Schema):
    columns: list[str]
    rows: list[list[int | float | str | None]] = Field(description="a blob is hexadecimal text")
    truncated: bool = Field(description="there are more rows than `limit`, or values were cut to the answer's size")
    table: TableOut


@router.get("/commands/{id}/output/search", response={200: FoundLines} | PROBLEMS, tags=["commands"])
def search_output(request, id: str, wish: Query[SearchWish]):
    """Return the lines of a command's output so far that match a pattern, and lines around them."""
    command = find_command(request, id)
    return Status(200, kept_text.search_output(command, by=request.auth.actor, **wish.model_dump()))


@router.post("/commands/{id}/output/query", response={200: Selected} | PROBLEMS, tags=["commands"])
def query_output(request, id: str, wish: QueryWish):
    """Ask a command's output so far by SQL: CSV, TSV, JSON lines, or plain lines."""
    command = find_command(request, id)
    return Status(200, kept_text.query_output(command, by=request.auth.actor, **wish.model_dump()))


@router.get("/workspaces/{key}/search", response={200: FoundLines} | PROBLEMS, tags=["files"])
def search_file(request, key: str, wish: Query[FileSearchWish]):
    """Return the lines of a file, of now or of a snapshot, that match a pattern, and lines around them."""
    return Status(200, kept_text.search_file(*_file(request, key, wish), **_rest(request, wish)))


@router.post("/workspaces/{key}/query", response={200: Selected} | PROBLEMS, tags=["files"])
def query_file(request, key: str, wish: FileQueryWish):
    """Ask a file, of now or of a snapshot, by SQL: CSV, TSV, JSON lines, or plain lines."""
    return Status(200, kept_text.query_file(*_file(request, key, wish), **_rest(request, wish)))


def _file(request, key: str, wish: FileSearchWish | FileQueryWish) -> tuple:
    workspace = find(request, key)
    if wish.snapshot is None:
        activity.touch(workspace)
    return workspace, wish.snapshot or history.LIVE, wish.path.encode("utf-8", "surrogateescape").strip(b"/")


def _rest(request, wish: Strict) -> dict:
    return wish.model_dump(exclude={"path", "snapshot"}) | {"by": request.auth.actor}

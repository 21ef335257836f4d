"""The report as a file: CSV, and HTML or PDF that are signed with the key of the log."""

import csv
from io import StringIO

from django.template.loader import render_to_string
from django.utils.translation import gettext

from dashboard.keys import log_key
from dashboard.models import Team
from dashboard.site.measures.csv_file import harmless
from dashboard.site.oversight.tables import Table, tables
from handrail_verify.reports import signed_file

KINDS = {"csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8", "pdf": "application/pdf"}
MARGIN, LINE, TEXT, HEADING = 15, 5, 8, 12  # of a page of A4: mm, mm, points, points


def name_of(found: dict, kind: str) -> str:
    return f"handrail-{found['team']}-oversight-{found['from']}-{found['to']}.{kind}"


def as_csv(found: dict) -> bytes:
    """Return a row for each figure: from, to, part, row, column, value. Numbers have no separators."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["from", "to", "part", "row", "measure", "value"])
    for part in ("calls", "reviewers", "decisions", "by_tier", "by_person", "attention", "exceptions", "stops"):
        rows = found[part] if isinstance(found[part], list) else [found[part]]
        for row in rows:
            named = row.get("tier") or row.get("person") or ""
            for measure, value in row.items():
                if measure not in ("tier", "person"):
                    value = "" if value is None else value
                    writer.writerow([found["from"], found["to"], part, harmless(named), measure, value])
    return text.getvalue().encode()


def as_html(found: dict, team: Team) -> bytes:
    """Return one HTML file that needs nothing else, signed."""
    page = render_to_string("measures/oversight_file.html", _context(found, team))
    return signed_file(page.encode(), log_key.private_key(), log_key.public_key())


def as_pdf(found: dict, team: Team) -> bytes:
    """Return a PDF, signed. Letters beyond Western European ones are written as escapes: it brings no fonts."""
    from fpdf import FPDF  # here, so that a desk that makes no PDF does not load it

    pdf = FPDF(format="A4")
    pdf.set_margin(MARGIN)
    pdf.add_page()
    pdf.set_title(_western(gettext("Oversight report")))
    context = _context(found, team)
    _line(pdf, f"{gettext('Oversight report')}: {team.name}", HEADING + 4, style="B")
    _line(pdf, context["period"], TEXT)
    for table in context["tables"]:
        _table(pdf, table)
    return signed_file(bytes(pdf.output()), log_key.private_key(), log_key.public_key())


def _context(found: dict, team: Team) -> dict:
    period = gettext("%(from)s to %(to)s, days in UTC. Made at %(made_at)s.") % found
    return {"found": found, "measured": team, "tables": tables(found), "period": period}


def _table(pdf, table: Table):
    pdf.ln(LINE)
    _line(pdf, table.title, HEADING, style="B")
    if table.about:
        _line(pdf, table.about, TEXT)
    pdf.set_font("Helvetica", size=TEXT)
    with pdf.table(line_height=LINE, text_align="LEFT") as drawn:
        for row in [table.columns, *table.rows]:
            cells = drawn.row()
            for cell in row:
                cells.cell(_western(cell))


def _line(pdf, text: str, size: int, style: str = ""):
    pdf.set_font("Helvetica", style=style, size=size)
    pdf.multi_cell(0, LINE if size == TEXT else LINE + 2, _western(text), new_x="LMARGIN", new_y="NEXT")


def _western(text: str) -> str:
    """Return the text with what the standard fonts of PDF lack as escapes."""
    return text.encode("cp1252", "backslashreplace").decode("cp1252").replace("\xa0", " ").replace("\u202f", " ")

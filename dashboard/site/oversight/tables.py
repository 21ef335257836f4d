"""The report as tables in words, which page, HTML, PDF and CSV share."""

from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from dashboard.site.oversight.references import REFERENCES
from dashboard.templatetags.measure_words import seconds


class Table(NamedTuple):
    """A part of the report: its name in the JSON, a title, what it counts, and rows of texts under columns."""

    part: str
    title: str
    about: str
    columns: list[str]
    rows: list[list[str]]

    @property
    def labelled(self) -> list[list[tuple[str, str]]]:
        """Return the rows with each cell after its column's title."""
        return [list(zip(self.columns, row, strict=True)) for row in self.rows]


def tables(found: dict) -> list[Table]:
    """Return the parts of the report that `figures.oversight` found, in the order in which they are read."""
    made = [_calls(found), _undo(found), _decisions(found), _by_tier(found), _by_person(found), _attention(found)]
    made += [_exceptions(found), _stops(found), _log(found)]
    titles = {table.part: table.title for table in made}
    return [table for table in made if table.rows] + [_references(titles)]


def _calls(found: dict) -> Table:
    calls = found["calls"]
    rows = [
        [gettext("Ran without asking"), _number(calls["let_run"])],
        [gettext("Asked a person"), _number(calls["asked"])],
        [gettext("Denied by a person"), _number(calls["denied"])],
        [gettext("Forbidden by the policy"), _number(calls["forbidden"])],
    ]
    about = gettext("Every call of an agent in this period. What a person denied was asked, too.")
    return Table("calls", gettext("Calls of agents"), about, [gettext("Calls"), gettext("Count")], rows)


def _undo(found: dict) -> Table:
    undo = found["undo"]
    rows = [
        [gettext("Can be undone inside, by a snapshot"), _number(undo["inside"])],
        [gettext("Can be undone outside, by a call there"), _number(undo["outside"])],
        [gettext("Can't be undone, or not known"), _number(undo["not"])],
        [gettext("Taken back outside"), _number(undo["taken_back"])],
        [gettext("Tried to take back outside, in vain or with an unknown outcome"), _number(undo["not_taken_back"])],
    ]
    about = gettext("Calls of agents that ran in this period, by whether what they did can be undone.")
    return Table("undo", gettext("Undo"), about, [gettext("Calls"), gettext("Count")], rows)


ANSWERS = ("approved", "edited", "sent_back", "denied")


def _answer_columns() -> list[str]:
    answers = [gettext("Approved"), gettext("Edited"), gettext("Sent back"), gettext("Denied")]
    return [*answers, gettext("Median"), "95 %"]


def _answers(row: dict) -> list[str]:
    return [*(_number(row[name]) for name in ANSWERS), seconds(row["p50_s"]), seconds(row["p95_s"])]


def _decisions(found: dict) -> Table:
    people = found["reviewers"]
    about = gettext("%(decided)s of %(may)s people who may decide did so. Times are from the request to the answer.")
    about %= {"decided": _number(people["decided"]), "may": _number(people["may_decide"])}
    columns, row = [gettext("Person"), *_answer_columns()], [gettext("Everybody"), *_answers(found["decisions"])]
    return Table("decisions", gettext("Answers of people"), about, columns, [row])


def _by_tier(found: dict) -> Table:
    names = {
        "critical": gettext("Takes two people"),
        "high": gettext("Takes one person"),
        "medium": gettext("Runs without asking"),
        "low": gettext("Runs without asking, reads only"),
    }
    rows = [
        [names[row["tier"]], _number(row["asked"]), *_answers(row), _number(row["unanswered"])]
        for row in found["by_tier"]
        if row["asked"] or row["count"]
    ]
    columns = [gettext("Risk"), gettext("Asked"), *_answer_columns(), gettext("Not answered in time")]
    about = gettext("What nobody answers in time does not run. A call that a person edited can need less than before.")
    return Table("by_tier", gettext("By risk"), about, columns, rows)


def _by_person(found: dict) -> Table:
    rows = [[row["person"], *_answers(row), _number(row["quick"])] for row in found["by_person"]]
    quick = gettext("Approved within %(n)s s") % {"n": found["attention"]["quick_s"]}
    columns = [gettext("Person"), *_answer_columns(), quick]
    about = gettext("Leads and admins see everybody, others only themselves.")
    return Table("by_person", gettext("By person"), about, columns, rows)


def _attention(found: dict) -> Table:
    part = found["attention"]
    many = part["approved_everything_from"]
    rows = [
        [gettext("Approvals"), _number(part["approvals"])],
        [gettext("of them within %(n)s s of the request") % {"n": part["quick_s"]}, _number(part["quick"])],
        [gettext("of them by a page that says what it showed"), _number(part["shown"])],
        [gettext("of those with a part that was never in view"), _number(part["unread"])],
        [gettext("Answered in a notification, without the card"), _number(part["answered_in_notifications"])],
        [
            ngettext(
                "People who approved everything, of those with %(n)s answer or more",
                "People who approved everything, of those with %(n)s answers or more",
                many,
            )
            % {"n": many},
            _number(part["approved_everything"]),
        ],
        [gettext("Drills that were approved"), _number(part["drills_approved"])],
        [gettext("Drills that were not approved"), _number(part["drills_caught"])],
        [gettext("Drills that nobody answered"), _number(part["drills_unanswered"])],
        [gettext("Ran without asking and changed something"), _number(part["unasked"])],
        [gettext("of them checked by a person afterwards"), _number(part["unasked_looked_at"])],
    ]
    about = gettext("What tells whether people read what they approve.")
    return Table("attention", gettext("Attention"), about, [gettext("What"), gettext("Count")], rows)


def _exceptions(found: dict) -> Table:
    part = found["exceptions"]
    rows = [
        [gettext("Approved by two people"), _number(part["by_two_people"])],
        [gettext("Took two people, approved alone by the only one"), _number(part["alone"])],
        [gettext("Confirmed with a passkey"), _number(part["with_passkey"])],
        [gettext("Approved to run without its limits"), _number(part["unheld"])],
        [gettext("Permissions given for a time"), _number(part["grants_given"])],
        [gettext("Policies saved"), _number(part["policies_saved"])],
        [gettext("Ran another command than was allowed"), _number(part["ran_differently"])],
    ]
    return Table("exceptions", gettext("Rules and exceptions"), "", [gettext("What"), gettext("Count")], rows)


def _stops(found: dict) -> Table:
    part = found["stops"]
    rows = [
        [gettext("Everything stopped"), _number(part["everything_stopped"])],
        [gettext("Agents paused"), _number(part["agents_paused"])],
        [gettext("Agents interrupted"), _number(part["agents_interrupted"])],
    ]
    return Table("stops", gettext("Stops"), "", [gettext("What"), gettext("Count")], rows)


def _log(found: dict) -> Table:
    signed = found["log"]["checkpoint"]
    rows = [[gettext("Events in the log"), _number(found["log"]["events"])]]
    if signed:
        rows.append([gettext("Signed up to event"), _number(signed["seq"])])
        rows.append([gettext("Its hash"), signed["hash"]])
    about = gettext("Each figure is counted from what this log records. Export it and verify it with the checkpoint.")
    return Table("log", gettext("The log"), about, [gettext("What"), gettext("Value")], rows)


def _references(titles: dict[str, str]) -> Table:
    rows = [[one.text, one.clause, str(one.about), ", ".join(titles[part] for part in one.parts)] for one in REFERENCES]
    about = gettext("Which part of this report speaks to which requirement. Whether it is met, people have to judge.")
    columns = [gettext("Text"), gettext("Clause"), gettext("What it asks for"), gettext("Part of this report")]
    return Table("references", gettext("Requirements by name"), about, columns, rows)


def _number(value: int) -> str:
    return number_format(value, force_grouping=True)

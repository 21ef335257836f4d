"""Search and query a large text: the output of a command, or a file of one point in time."""

from functools import partial
from urllib.parse import quote_from_bytes

from django import forms
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from dashboard.problems import Problem
from dashboard.text.visible_text import visible
from dashboard.web.pages import signed_in
from workspaces.pages.commands import find_command
from workspaces.pages.files import point_and_path
from workspaces.pages.forms import AS_CODE, CODE
from workspaces.pages.header import load_header
from workspaces.programs.kept_text import asking
from workspaces.services import kept_text

AROUND = (0, 2, 5, 20)  # lines
FORMATS = {
    "auto": gettext_lazy("as its first line looks"),
    "csv": gettext_lazy("CSV"),
    "tsv": gettext_lazy("TSV"),
    "jsonl": gettext_lazy("JSON lines"),
    "lines": gettext_lazy("a row for each line: n, text"),
}


class SearchForm(forms.Form):
    """A pattern; `wish()` is what `asking.search` takes."""

    pattern = forms.CharField(
        label=gettext_lazy("Pattern"),
        max_length=asking.MAX_PATTERN,
        strip=False,
        widget=forms.TextInput(AS_CODE),
        help_text=gettext_lazy("A regular expression, such as <code>error|warning</code>."),
    )
    fixed = forms.BooleanField(label=gettext_lazy("Search for exactly this text"), required=False)
    ignore_case = forms.BooleanField(label=gettext_lazy("Ignore case"), required=False)
    around = forms.TypedChoiceField(
        label=gettext_lazy("Lines around each"),
        coerce=int,
        choices=[(n, n) for n in AROUND],
        required=False,  # an address that somebody wrote need not say it
        empty_value=0,
    )

    def wish(self) -> dict:
        wish = dict(self.cleaned_data)
        around = wish.pop("around")
        return wish | {"before": around, "after": around}


class QueryForm(forms.Form):
    """One SELECT; `wish()` is what `asking.query` takes."""

    sql = forms.CharField(
        label=gettext_lazy("SQL"), max_length=asking.MAX_SQL, widget=forms.Textarea(CODE | {"rows": 4})
    )
    format = forms.ChoiceField(label=gettext_lazy("Read as"), choices=list(FORMATS.items()))
    first_line = forms.IntegerField(
        label=gettext_lazy("First line of the table"),
        min_value=1,
        max_value=asking.MAX_FIRST_LINE,
        initial=1,
        widget=forms.NumberInput({"inputmode": "numeric"}),
    )

    def wish(self) -> dict:
        return self.cleaned_data


@signed_in
@require_safe
def output(request, team, key, pk):
    """Search or query the output of a command."""
    head = load_header(request, team, key, "workspace-checks")
    command = find_command(head.workspace, pk)
    by = request.caller.actor
    context = {
        "head": head,
        "command": command,
        "back": reverse("command", args=[team, key, pk]),
        "back_words": gettext("Command in %(key)s") % {"key": key},
        "title": gettext("Search the output"),
        "example": "SELECT * FROM output",
    }
    search, query = (partial(ask, command, by=by) for ask in (kept_text.search_output, kept_text.query_output))
    return _page(request, context, search, query)


@signed_in
@require_safe
def file(request, team, key):
    """Search or query a file."""
    head = load_header(request, team, key, "workspace-files")
    at, path = point_and_path(request)
    by, quoted = request.caller.actor, quote_from_bytes(path)
    context = {
        "head": head,
        "at": at,
        "quoted": quoted,
        "file": path.decode("utf-8", "surrogateescape"),
        "back": f"{reverse('workspace-files', args=[team, key])}?at={at}&path={quoted}",
        "back_words": gettext("Files in %(key)s") % {"key": key},
        "title": gettext("Search the file"),
        "example": "SELECT * FROM file",
    }
    search, query = (
        partial(ask, head.workspace, at, path, by=by) for ask in (kept_text.search_file, kept_text.query_file)
    )
    return _page(request, context, search, query)


def _page(request, context: dict, search, query):
    """Answer with both forms, and with the result of the one that was sent."""
    sent, first = request.GET, request.GET.get("from_line", "")
    search = partial(search, from_line=int(first) if first.isdecimal() and 0 < len(first) < 16 else 1)
    asked = {
        "search_form": SearchForm(sent if "pattern" in sent else None),
        "query_form": QueryForm(sent if "sql" in sent else None, initial={"sql": context["example"]}),
    }
    for name, ask in (("search", search), ("query", query)):
        form = asked[f"{name}_form"]
        if form.is_bound and form.is_valid():
            try:
                context[name] = ask(**form.wish())
            except Problem as problem:
                # It can quote the text, which an agent wrote.
                form.add_error(None, visible(problem.detail, one_line=True))
    if "search" in context:
        context |= _shown(context["search"], sent)
    return render(request, "workspaces/kept_text.html", {"nav": "workspaces"} | context | asked)


def _shown(found: dict, sent) -> dict:
    """Return {lines, digits, further}: (line, whether its end is left out), and the address of what follows."""
    lines = [(line, line["column"] + len(line["text"]) < line["length"]) for line in found["lines"]]
    shown = {"lines": lines, "digits": min(8, len(str(found["lines"][-1]["n"]))) if lines else 4}
    if found["more_from"] is None:
        return shown
    further = sent.copy()
    further["from_line"] = found["more_from"]
    return shown | {"further": f"?{further.urlencode()}"}

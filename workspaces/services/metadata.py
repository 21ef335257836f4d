"""What people note about a workspace: its description, owner, ticket and labels."""

import re

from django.contrib.auth import get_user_model
from django.utils.translation import gettext

from dashboard.models import Actor, Team
from dashboard.problems import invalid
from workspaces.lifecycle import record
from workspaces.models import Workspace, WorkspaceLabel
from workspaces.secrets.masking import masked

TICKET = re.compile(r"[\w][\w./#-]{0,99}")
LABEL_NAME = re.compile(r"[^:\s]{1,64}")
MAX_LABELS = 50
MAX_LABEL_VALUE = 200
MAX_DESCRIPTION = 500
FIELDS = ("description", "owner", "ticket", "labels")


def change(workspace, wish: dict, *, by: Actor):
    """Set some of FIELDS; `owner` is the name of a member of the team, or "" for none. Problem 422 changes nothing.

    One event names the new values of what differs.
    """
    wanted = {name: CHECKS[name](workspace, value) for name, value in wish.items()}
    with Team.objects.turn(workspace.team_id):
        now = Workspace.objects.locked().get(pk=workspace.pk)
        differing = {name: value for name, value in wanted.items() if getattr(now, name) != value}
        if not differing:
            return
        for name, value in differing.items():
            setattr(now, name, value)
        now.save(update_fields=list(differing))
        if "labels" in differing:
            now.label_rows.all().delete()
            rows = (WorkspaceLabel(workspace=now, name=name, value=value) for name, value in now.labels.items())
            WorkspaceLabel.objects.bulk_create(rows)
        told = {name: str(value or "") if name == "owner" else value for name, value in differing.items()}
        record(now, by, "workspace.described", told)


def people_of(team_id):
    """Return those who can own a workspace of the team."""
    return get_user_model().objects.filter(memberships__team=team_id, is_active=True).order_by("username")


def read_labels(text: str) -> dict[str, str]:
    """Parse lines of `name: value` to {name: value}. Problem 422 names the line that is none."""
    labels = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise invalid(gettext("Line %(number)s: write a label as name: value.") % {"number": number})
        labels[name.strip()] = value.strip()
    return labels


def _description(workspace, value) -> str:
    value = " ".join((value or "").split())
    if len(value) > MAX_DESCRIPTION:
        raise invalid(gettext("A description can have at most %(most)s characters.") % {"most": MAX_DESCRIPTION})
    return masked(value, workspace)[:MAX_DESCRIPTION]


def _owner(workspace, value):
    if not value:
        return None
    found = people_of(workspace.team_id).filter(username=value).first()
    if found is None:
        raise invalid(gettext("There is nobody named %(name)s in this team.") % {"name": repr(value)})
    return found


def _ticket(workspace, value) -> str:
    value = (value or "").strip()
    if value and (not TICKET.fullmatch(value) or ".." in value):
        raise invalid(gettext("A ticket is an id such as PAY-41: letters, digits and . / # - _, at most 100."))
    return value


def _labels(workspace, value) -> dict[str, str]:
    labels = dict(value or {})
    if len(labels) > MAX_LABELS:
        raise invalid(gettext("A workspace can have at most %(most)s labels.") % {"most": MAX_LABELS})
    for name, text in labels.items():
        if not LABEL_NAME.fullmatch(name):
            raise invalid(gettext("%(name)s is no name of a label: no spaces, no colon.") % {"name": repr(name)})
        if len(text) > MAX_LABEL_VALUE:
            raise invalid(gettext("The value of label %(name)s is too long.") % {"name": name})
    return labels


CHECKS = {"description": _description, "owner": _owner, "ticket": _ticket, "labels": _labels}

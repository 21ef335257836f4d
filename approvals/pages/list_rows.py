"""The rows of the list of waiting calls: one for each action, and one for alike ones."""

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.utils.translation import gettext

from approvals.evaluation.judge import content
from approvals.models import Action
from approvals.pages.alike_groups import FILE_TOOLS, Group, groups_of, sums_of
from approvals.pages.card import Card, cards_of, for_rows
from approvals.pages.list_filters import MAX_LISTED
from approvals.policy.people import Takes
from approvals.policy.plural_titles import plural_phrase
from approvals.questions import own_questions


@dataclass(frozen=True)
class Entry:
    """A place in the list: the ids of the actions in its row, and their group if they are several."""

    pks: tuple[UUID, ...]
    group: Group | None = None


@dataclass(frozen=True)
class Row:
    """A row as it is shown: the card of its first action, and the group that the row stands for, if it does."""

    card: Card
    group: Group | None
    is_current: bool

    @property
    def title(self) -> str:
        return title_of(self.group.actions, self.group.label)

    @cached_property
    def sums(self) -> list[str]:
        return sums_of(self.group.actions)

    @property
    def ends_at(self):
        """When the first of them ends."""
        return min(action.expires_at for action in self.group.actions)

    @property
    def places(self) -> str:
        """The workspace of all of them; "3 workspaces"; "" outside any."""
        found = {action.workspace_id for action in self.group.actions}
        if len(found) > 1:
            return gettext("%(count)s workspaces") % {"count": len(found)}
        workspace = self.card.action.workspace
        return workspace.key if workspace else ""


def title_of(actions, label: str) -> str:
    """Return what alike calls are, counted: "50 contact changes (crm)"; "5 × git push" where they have no such name."""
    named = plural_phrase((action.tool, content(action)["arguments"]) for action in actions)
    if named is not None and actions[0].tool not in FILE_TOOLS:
        return named.said(gettext)
    return gettext("%(n)s × %(label)s") % {"n": len(actions), "label": label}


def entries_of(listed) -> tuple[list[Entry], list[Group]]:
    """Return the places in the order of `listed`, and the groups that are no row."""
    facts = list(listed.values_list("pk", "tool", "quorum", "quorum_role", "quorum_groups")[:MAX_LISTED])
    calls = [pk for pk, tool, *takes in facts if Takes(*takes).takes_one and tool not in own_questions.TOOLS]
    found = {each.pk: each for each in Action.objects.filter(pk__in=calls).prefetch_related("revisions")}
    groups = groups_of(found[pk] for pk in calls if pk in found)
    of = {action.pk: group for group in groups if group.is_one_row for action in group.actions}
    entries, placed = [], set()
    for pk, *_ in facts:
        group = of.get(pk)
        if group is None:
            entries.append(Entry((pk,)))
        elif group.key not in placed:
            placed.add(group.key)
            entries.append(Entry(tuple(action.pk for action in group.actions), group))
    return entries, [group for group in groups if not group.is_one_row]


def rows_of(entries: list[Entry], caller, now, current: UUID | None = None) -> list[Row]:
    """Return what is shown of these places; `current` is the action whose card is open beside the list."""
    firsts = for_rows(Action.objects.visible_to(caller).filter(pk__in=[entry.pks[0] for entry in entries]))
    cards = {card.action.pk: card for card in cards_of(firsts, caller, now)}
    return [Row(cards[entry.pks[0]], entry.group, current in entry.pks) for entry in entries if entry.pks[0] in cards]

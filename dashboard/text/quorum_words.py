"""How many people have to approve, in words: "takes 2 people, one of them a lead, one of the group dba"."""

from django.utils.translation import gettext, gettext_lazy, ngettext

ONE_OF_A_ROLE = {"lead": gettext_lazy("takes a lead"), "admin": gettext_lazy("takes an admin")}
ONE_OF_THEM = {
    "lead": gettext_lazy("takes %(people)s, one of them a lead"),
    "admin": gettext_lazy("takes %(people)s, one of them an admin"),
}
BY_THE_ROLE = {"lead": gettext_lazy("one approval by a lead"), "admin": gettext_lazy("one approval by an admin")}
ONE_BY_THE_ROLE = {
    "lead": gettext_lazy("%(count)s more approvals, one of them by a lead"),
    "admin": gettext_lazy("%(count)s more approvals, one of them by an admin"),
}


def takes(people: int, role: str = "", groups=()) -> str:
    """Say how many people approve; `role` is the one that one of them has, "" for any, and one is of each group."""
    return _with_groups(_takes(people, role), groups)


def _with_groups(words: str, groups) -> str:
    named = [gettext("one of the group %(name)s") % {"name": name} for name in groups]
    return ", ".join([words, *named])


def _takes(people: int, role: str) -> str:
    if role and people <= 1:
        return str(ONE_OF_A_ROLE[role])
    words = ONE_OF_THEM[role] if role else gettext("takes %(people)s")
    return words % {"people": ngettext("%(n)s person", "%(n)s people", people) % {"n": people}}


def still_needs(people: int, role: str = "", groups=()) -> str:
    """Say what is missing: approvals of so many people, and of this role and these groups if nobody of them has yet."""
    return _with_groups(_still_needs(people, role), groups)


def _still_needs(people: int, role: str) -> str:
    if people <= 1:
        return str(BY_THE_ROLE[role]) if role else gettext("one more approval")
    words = ONE_BY_THE_ROLE[role] if role else gettext("%(count)s more approvals")
    return words % {"count": people}

"""The list beside a card: sent to wide screens, and to browsers that did not say how wide they are."""

import pytest

from approvals.models import Action


@pytest.mark.parametrize(("cookie", "sent"), [(None, True), ("1", True), ("0", False)])
def test_only_wide_screens_are_sent_the_list(ask, browser_of, lena, cookie, sent):
    shown, other = ask({"command": "git push origin main:shown"}), ask({"command": "git push origin main:other"})
    client = browser_of(lena)
    if cookie:
        client.cookies["handrail-wide"] = cookie
    page = client.get(f"/actions/{shown.pk}/").content.decode()
    assert shown.title in page
    assert (f'id="action-{other.pk}"' in page) == sent


def test_of_a_long_list_the_part_around_the_card_is_sent(ask, browser_of, lena):
    asked = [ask({"command": f"git push origin main:b{number}"}) for number in range(24)]
    found = Action.objects.filter(pk__in=[each.pk for each in asked]).order_by("expires_at", "pk")
    pks = list(found.values_list("pk", flat=True))
    sent = {0: (0, 9), 14: (2, 23), 23: (11, 24)}
    for place, (first, end) in sent.items():
        page = browser_of(lena).get(f"/actions/{pks[place]}/").content.decode()
        listed = [pk for pk in pks if f'id="action-{pk}"' in page]
        assert listed == pks[first:end]
        assert (f"{first} more above" in page, f"{24 - end} more below" in page) == (first > 0, end < 24)

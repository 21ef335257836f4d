"""The list beside a card: sent to wide screens, and to browsers that did not say how wide they are."""

import re

import pytest


@pytest.mark.parametrize(("cookie", "sent"), [(None, True), ("1", True), ("0", False)])
def test_only_wide_screens_are_sent_the_list(ask, browser_of, lena, cookie, sent):
    shown, other = ask({"command": "git push origin main:shown"}), ask({"command": "git push origin main:other"})
    client = browser_of(lena)
    if cookie:
        client.cookies["handrail-wide"] = cookie
    page = client.get(f"/actions/{shown.pk}/").content.decode()
    assert shown.title in page
    assert (f'id="action-{other.pk}"' in page) == sent


UNLIKE = [f"{first}{second}" for first in "abcdefghij" for second in "abcdef"]  # 60 that are no row together


def listed(page: str) -> list[str]:
    return re.findall(r'id="action-([^"]+)"', page)


@pytest.mark.parametrize(("place", "start", "above", "below"), [(0, 0, 0, 35), (20, 12, 12, 23), (59, 35, 35, 0)])
def test_a_part_of_a_long_list_is_sent_with_links_to_what_is_above_and_below(
    ask, browser_of, lena, place, start, above, below
):
    asked = [ask({"command": f"git push origin main:{name}"}) for name in UNLIKE]
    order = [str(action.pk) for action in sorted(asked, key=lambda action: (action.expires_at, action.pk))]
    page = browser_of(lena).get(f"/actions/{order[place]}/").content.decode()
    assert listed(page) == order[start : start + 25]
    assert (f"{above} more above" in page) == bool(above)
    assert (f"{below} more below" in page) == bool(below)
    if above:
        assert f'href="/actions/{order[start - 1]}/"' in page
    if below:
        assert f'href="/actions/{order[start + 25]}/"' in page

"""The list beside a card: sent to wide screens, and to browsers that did not say how wide they are."""

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

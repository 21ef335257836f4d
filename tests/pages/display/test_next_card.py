"""The button to the next card has that card's title, which an agent wrote: hidden characters are marked there too."""

import re


def test_hidden_characters_are_marked_on_the_way_to_the_next_card(ask, decide, lena, browser_of):
    decided, following = ask({"command": "git push origin main"}), ask({"command": "rm -rf build\u200b/ /srv/data"})
    assert "\u200b" in following.title
    decide(decided, "deny", by=lena)
    page = browser_of(lena).get(f"/actions/{decided.pk}/").content.decode()
    button = re.search(rf'<a class="button" href="/actions/{following.pk}/">(.*?)</a>', page, re.DOTALL).group(1)
    assert "U+200B" in button
    assert "\u200b" not in button

"""Taking back parts of a change, one after another, gives the old text, with or without its last newline."""

from hypothesis import given, settings
from hypothesis import strategies as st

from workspaces.services.revert import without
from workspaces.store.text import text_diff

lines = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"d\r", b"\xff"]), max_size=30)
texts = st.builds(lambda found, end: b"\n".join(found) + end, lines, st.sampled_from([b"", b"\n"]))
FAR = b"".join(b"%d\n" % number for number in range(10))


@settings(deadline=None)
@given(old=texts, new=texts, rest=st.sampled_from([b"", b"end", b"end\n"]), dice=st.randoms(use_true_random=False))
def test_each_part_that_goes_back_is_gone_and_the_others_stay(old, new, rest, dice):
    old, live = old + FAR + rest, new + FAR + dice.choice([rest, b"end", b"end\n"])
    found = text_diff(old, live).hunks
    while found:
        live = without(live, found[dice.randrange(len(found))])
        left = text_diff(old, live).hunks
        assert len(left) == len(found) - 1
        found = left
    assert live == old

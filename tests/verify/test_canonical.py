"""Our canonical JSON is RFC 8785's: compared with the package of that name, and with the examples of the RFC."""

import json
import struct

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from handrail_verify import canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-canonical.MOST, canonical.MOST) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
@example({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "ö": 7})
@example([1e21, 1e20, 1e-6, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, 123456789012345680000.0, 1.5e-7])
@example(['\x00\x1f\x7f\u2028"\\\b\f', (), {}, ((1,),)])
def test_the_canonical_form_is_that_of_rfc8785(value):
    try:
        expected = rfc8785.dumps(value)
    except ValueError:
        with pytest.raises(canonical.NoCanonicalForm):
            canonical.dumps(value)
    else:
        assert canonical.dumps(value) == expected


@given(st.binary(min_size=8, max_size=8))
def test_each_double_is_written_as_rfc8785_writes_it(bits):
    [number] = struct.unpack("d", bits)
    try:
        expected = rfc8785.dumps(number)
    except ValueError:
        with pytest.raises(canonical.NoCanonicalForm):
            canonical.dumps(number)
    else:
        assert canonical.dumps(number) == expected


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, 2**53, -(2**53), float("nan"), {1: 2}, b"x", {"a": {3}}])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(canonical.NoCanonicalForm):
        canonical.dumps(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "a": 1}', "a key appears twice"),
        (b'[{"a": {"b": 1, "b": 2}}]', "a key appears twice"),
        (b"NaN", "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"{", "Expecting property name"),
        (b"", "Expecting value"),
    ],
)
def test_a_key_twice_and_what_is_no_json_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        canonical.loads_once(text)
    assert canonical.loads_once(b'{"a": {"a": 1}}') == json.loads('{"a": {"a": 1}}')

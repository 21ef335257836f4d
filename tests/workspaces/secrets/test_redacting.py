"""What a program prints is recorded without the values of secrets, however it comes."""

import base64
import html
import json
import random
from urllib.parse import quote

import pytest

from dashboard.keys.secret_forms import encoded_forms
from workspaces.shim.redact import Redactor

LONG = "4kB-" + "".join(random.Random(4).choices("abcdefghijklmnopqrstuvwxyz0123456789+/=\n", k=4000))
VALUES = {
    "PLAIN": "correct horse battery",
    "BEGUN_ALIKE": "correct horse battery staple",
    "SAME_LETTER": "aaaaaaaa",
    "LINES": 'first "line"\nsecond ünï $HOME \\ end',
    "LONG": LONG,
    "MARKS": "a/b+c<d>&'e\"f=gh",
}


def all_of(value: bytes):
    yield value
    yield value.replace(b"\n", b"\r\n")
    yield json.dumps(value.decode())[1:-1].encode()
    yield quote(value, safe="").encode()
    text = json.dumps(value.decode())[1:-1]
    yield text.replace("/", "\\/").encode()  # PHP
    yield text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").encode()  # Go, Rails
    yield html.escape(value.decode()).encode()
    yield html.escape(value.decode(), quote=False).replace('"', "&#34;").replace("'", "&#39;").encode()  # Go
    for before in range(3):
        yield base64.b64encode(b"x" * before + value + b"yz")
        yield base64.urlsafe_b64encode(b"x" * before + value + b"yz")
        yield base64.b64encode(b"x" * before + value + b"yz").replace(b"/", b"\\/")  # PHP
        yield quote(base64.b64encode(b"x" * before + value + b"yz"), safe="").encode()
    yield base64.encodebytes(value)  # lines of 76


@pytest.mark.parametrize("name", VALUES)
def test_every_form_is_taken_out_in_pieces_of_any_size(name):
    chance = random.Random(name)
    for form in all_of(VALUES[name].encode()):
        stream, redactor, out = b"before " + form + b" after", Redactor(VALUES.items()), b""
        while stream:
            size = chance.choice((1, 2, 7, 100, 5000))
            out, stream = out + redactor.feed(stream[:size]), stream[size:]
        out += redactor.flush()
        assert b"[secret " in out, form[:60]
        assert out.startswith(b"before ")
        assert out.endswith(b" after")
        for value in VALUES.values():
            assert not [found for found in encoded_forms(value.encode()) if found in out]


def test_only_values_of_secrets_are_redacted():
    redactor, chance = Redactor(VALUES.items()), random.Random(1)
    data = b"correct horse batter! aaaaaaa first " + chance.randbytes(100_000)
    assert redactor.feed(data) + redactor.flush() == data
    unused = Redactor([("SHORT", "1234567")])
    assert unused.feed(b"1234567") == b"1234567"


def test_the_beginning_of_a_value_waits_and_its_rest_is_taken_out_even_after_a_flush():
    redactor = Redactor([("WORD", "swordfish")])
    assert (redactor.feed(b"say sword"), redactor.waits) == (b"say ", True)
    assert (redactor.flush(), redactor.waits) == (b"sword", False)
    assert redactor.feed(b"fish!") == b"[secret WORD]!"
    assert redactor.feed(b"sword") + redactor.feed(b"play") == b"swordplay"


def test_a_filter_for_another_stream_begins_anew():
    first = Redactor(VALUES.items())
    assert first.feed(b"correct horse") == b""
    second = first.again()
    assert second.feed(b" battery is no value") + second.flush() == b" battery is no value"
    assert first.feed(b" battery") + first.flush() == b"[secret PLAIN]"

import json

import pytest

from workspaces.envelope.envelope import LOW, MEDIUM, Envelope


@pytest.mark.parametrize("envelope", [LOW, MEDIUM, Envelope(read=("/opt/x",), network=("db.example:5432",), seconds=9)])
def test_an_envelope_survives_as_json(envelope):
    assert Envelope.from_json(json.loads(json.dumps(envelope.to_json()))) == envelope


def test_low_writes_scratch_only_and_reaches_nothing():
    assert LOW.to_json() == {
        "read": ["workspace", "toolchains"],
        "write": ["scratch"],
        "network": [],
        "seconds": None,
    }


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"read": "workspace"},
        {"read": ["home"]},
        {"read": ["scratch/.."]},
        {"write": ["/"]},
        {"write": ["/workspace/../etc"]},
        {"write": ["relative"]},
        {"write": ["/tmp/a\0b"]},
        {"write": ["/tmp/"]},
        {"write": [None]},
        {"read": ["/x"] * 300},
        {"network": ["example.org"]},
        {"network": ["example.org:0"]},
        {"network": ["example.org:99999"]},
        {"network": [":80"]},
        {"seconds": 0},
        {"seconds": True},
        {"seconds": "9"},
        {"execute": []},
    ],
)
def test_an_invalid_envelope_is_refused(data):
    with pytest.raises(ValueError, match=r"envelope|neither"):
        Envelope.from_json(data)


def test_a_wider_envelope_allows_what_either_allows():
    card = Envelope(read=("/opt/x",), write=("workspace",), seconds=5)
    assert LOW.wider(card) == Envelope(
        read=("workspace", "toolchains", "/opt/x"), write=("scratch", "workspace"), seconds=None
    )
    assert card.wider(Envelope(seconds=7)).seconds == 7

"""What counts as a value of a secret file, for redaction."""

import json

import pytest

from workspaces.runner.redacted_files import values_in


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("API_KEY=sk-live-12345678", ["sk-live-12345678"]),
        ("export API_KEY='sk live 12345678'", ["sk live 12345678"]),
        ('  "api_key": "sk-live-12345678",', ["sk-live-12345678"]),
        ("API_KEY=sk-live-12345678 # of the shop", ["sk-live-12345678 # of the shop", "sk-live-12345678"]),
        ("api.key: sk-live-12345678", ["sk-live-12345678"]),
        ("URL=postgres://shop:s3cret-pass@db/shop", ["postgres://shop:s3cret-pass@db/shop", "s3cret-pass"]),
        ("# API_KEY=sk-live-12345678", []),
        ("PORT=3000", []),
        ("DEBUG=", []),
        (
            "machine example.org password abcdefghijklmnop1234",
            ["machine example.org password abcdefghijklmnop1234", "abcdefghijklmnop1234"],
        ),
    ],
)
def test_values_of_a_line(line, values):
    assert [value for _name, value in values_in(line + "\n", "file")] == values


def test_values_of_json_are_all_its_texts():
    text = json.dumps({"client": {"client_secret": "abcdefgh12", "ids": ["ijklmnop34", 5]}, "on": True})
    assert sorted(values_in(text, "client.json")) == [("client_secret", "abcdefgh12"), ("ids", "ijklmnop34")]


def test_values_of_a_key_are_its_lines():
    lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQ", "-----END KEY-----"]
    found = [value for _name, value in values_in("\n".join(lines), "server.key")]
    assert set(lines) - {"-----END KEY-----"} <= set(found)

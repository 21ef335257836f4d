"""What the gate reads of an undo that a server declares for its tool, and of the result that names what was made."""

import pytest

from handrail_client.mcp.declared_undo import declared, made_by

UNDO = {"tool": "delete_page", "arguments": {"id": {"result": "/pages/0/id"}, "space": {"argument": "space"}}}


def told(**meta) -> dict:
    return {"name": "create_page", "inputSchema": {"type": "object"}, "_meta": meta}


def test_a_declaration_is_read_from_the_meta_of_the_tool():
    assert declared(told(**{"handrail/undo": UNDO})) == UNDO
    assert declared(told(**{"handrail/undo": {"tool": "delete_page"}})) == {"tool": "delete_page", "arguments": {}}


@pytest.mark.parametrize(
    "definition",
    [
        None,
        {"name": "x"},
        {"name": "x", "_meta": []},
        told(**{"handrail/undo": "delete_page"}),
        told(**{"handrail/undo": {"arguments": {}}}),
        told(**{"handrail/undo": {"tool": "t", "arguments": {"id": {"result": "/id", "value": 1}}}}),
        told(**{"handrail/undo": {"tool": "t", "arguments": {"id": "/id"}}}),
        told(**{"handrail/undo": {"tool": "t", "arguments": {str(n): {"value": n} for n in range(21)}}}),
    ],
)
def test_another_form_is_no_declaration(definition):
    assert declared(definition) is None


@pytest.mark.parametrize(
    ("result", "made"),
    [
        ({"structuredContent": {"pages": [{"id": "p-7", "text": "not told"}]}, "content": []}, "p-7"),
        ({"content": [{"type": "text", "text": '{"pages": [{"id": 7}]}'}]}, 7),
        ({"content": [{"type": "text", "text": "Created p-7"}]}, None),
        ({"content": [{"type": "text", "text": "{}"}, {"type": "text", "text": "{}"}]}, None),
        ({"structuredContent": {"pages": [{"id": {"a": 1}}]}}, None),
        ({"structuredContent": {"pages": {"0": {"id": "by name"}}}}, "by name"),
        (None, None),
    ],
)
def test_only_what_the_declaration_names_is_taken_from_a_result(result, made):
    assert made_by(UNDO, result) == {"id": made}


def test_names_in_a_pointer_may_hold_a_slash_and_a_tilde():
    undo = {"tool": "t", "arguments": {"id": {"result": "/a~1b/c~0d"}}}
    assert made_by(undo, {"structuredContent": {"a/b": {"c~d": "x"}}}) == {"id": "x"}


def test_a_declaration_that_needs_nothing_of_the_result_reads_nothing_of_it():
    undo = {"tool": "t", "arguments": {"id": {"argument": "id"}, "force": {"value": True}}}
    assert (made_by(undo, {"structuredContent": {"id": 1}}), made_by(None, {})) == (None, None)

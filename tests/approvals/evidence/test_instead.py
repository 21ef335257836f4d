"""A no that says what to do instead reaches the agent word for word."""


def test_the_reason_reaches_the_api_and_the_hook(product, desk, workspace, person):
    call = {"hook_event_name": "PreToolUse", "session_id": "s-1", "tool_name": "Bash", "cwd": "/workspace"}
    call["tool_input"] = {"command": "curl https://example.org/instead"}
    body = {"tool": "Bash", "arguments": call["tool_input"], "workspace": workspace, "session": "s-1"}
    asked = desk.post("/actions", body).json
    decision = {"verdict": "deny", "digest": asked["digest"], "comment": "Use the mirror at packages/ instead"}
    assert product.post(f"/api/v1/actions/{asked['id']}/decision", person.token, decision).status == 200
    heard = product.post(f"/hooks/claude-code?workspace={workspace}", desk.token, call).json["hookSpecificOutput"]
    assert heard["permissionDecision"] == "deny"
    assert heard["permissionDecisionReason"] == (
        "evidence-reviewer denied this: Use the mirror at packages/ instead. Do not work around this."
    )
    read = desk.get(f"/actions/{asked['id']}").json
    assert read["decision"]["comment"] == "Use the mirror at packages/ instead"


def test_reasons_given_before_are_offered_again(workspace, ask, person):
    page = person.get(f"/actions/{ask(workspace, 'curl https://example.org/more')['id']}/deny/")
    assert 'data-reason="Use the mirror at packages/ instead"' in page

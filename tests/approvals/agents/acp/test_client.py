"""The client with which Handrail starts agents: one session, one prompt, and what it prints."""

from .conftest import permission


def test_a_turn_begins_a_session_and_another_goes_on_in_it(run):
    status, lines = run("Hello.")
    assert (status, lines[0]) == (0, {"type": "session", "session": "session-1"})
    assert lines[-1] == {"type": "result", "answer": "You said: Hello.", "stop": "end_turn"}
    status, lines = run("Again.", session="session-1")
    assert (status, lines[-1]["answer"]) == (0, "You said: Again.")


def test_instructions_reach_the_agent_and_are_no_words_of_the_person(run, product, agent_token):
    status, lines = run("A greeting, please.", instructions="Be brief.")
    assert status == 0
    assert lines[-1]["answer"] == "You said: A greeting, please.Beside it: Be brief."
    [session] = product.get("/api/v1/sessions", agent_token).json["sessions"]
    assert session["title"] == "A greeting, please."


def test_a_session_that_the_agent_does_not_know(run):
    status, lines = run("Hello.", session="session-2")
    assert (status, lines[0]["type"]) == (1, "no_session")
    assert "Session not found" in lines[-1]["error"]


def test_a_denied_call_is_explained_by_the_next_prompt(run):
    """The policy forbids it, so nobody is asked; the protocol itself carries no reason."""
    status, lines = run(permission("rm -rf /"))
    assert status == 0
    assert lines[-1]["answer"].startswith("You said: The policy forbids this: ")


def test_an_agent_that_dies_has_no_result(run):
    status, lines = run({"die": True})
    assert (status, lines[-1]["type"]) == (1, "ended")


def test_the_client_offers_neither_files_nor_terminals(run):
    status, lines = run({"method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    assert status == 0
    assert "does not support the method" in lines[-1]["answer"]

"""A person writes to Claude Code, or interrupts it: its model reads the words, and the turn ends."""

from tests.approvals.agents.claude_code.model import DONE, call, say
from tests.support.waiting import until


def send(reviewer, card, what, **body):
    answer = reviewer.product.post(f"/api/v1/actions/{card['id']}/{what}", reviewer._token, body)
    assert answer.status in (200, 201), answer.body
    return answer.json


def given(reviewer, message) -> dict:
    found = reviewer.product.get(f"/api/v1/messages?session={message['session']}", reviewer._token).json["messages"]
    return next(each for each in found if each["id"] == message["id"])


def test_the_model_reads_a_message_with_its_next_step(project, model, reviewer, session):
    first, second = call("Bash", command="./deploy.sh one"), call("Bash", command="./deploy.sh two")
    model.scripts["SHIP"] = [[first], [second], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    message = send(reviewer, card, "tell", text="Say it in the channel too.")
    assert given(reviewer, message)["given_at"] is None
    reviewer.answer(card, "approve")
    until(lambda: given(reviewer, message)["given_at"], within=60)
    reviewer.answer(reviewer.card(session), "approve")
    project.finish(running)
    assert project.ran == ["one", "two"]
    told = model.transcript("SHIP")
    assert "Message from rita" in told
    assert told.count("Say it in the channel too.") == 1


def test_an_agent_that_would_stop_reads_it_and_goes_on(project, model, reviewer, session):
    message = {}

    def last_words():
        message.update(send(reviewer, card, "tell", text="Run two as well."))
        return [say("Finished.")]

    again = [call("Bash", command="./deploy.sh two")]
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], last_words, again, DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    reviewer.answer(card, "approve")
    following = until(lambda: [each for each in reviewer.actions(session) if each["status"] == "pending"], within=60)
    reviewer.answer(following[0], "approve")
    project.finish(running)
    assert project.ran == ["one", "two"]
    # Claude Code repeats what a Stop hook says in a note of its own.
    assert model.transcript("SHIP").count("Stop hook feedback:\\nMessage from rita") == 1
    assert given(reviewer, message)["given_at"]


def test_an_interrupt_ends_the_turn_and_a_resumed_session_is_refused_until_it_is_lifted(
    project, model, reviewer, session
):
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], [call("Bash", command="./deploy.sh two")], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    send(reviewer, card, "interrupt", reason="The release is frozen.")
    project.finish(running)
    asked = len(model.asked)
    assert project.ran == []
    assert asked == 1  # the model was not asked for another step
    model.scripts["AGAIN"] = [[call("Bash", command="pwd")], DONE]
    project.run("AGAIN please", resume=session)
    assert "rita asks you to stop and wait: “The release is frozen.”" in model.transcript("SHIP")
    lifted = send(reviewer, card, "go-on")
    assert lifted["heard_at"]
    asked = len(model.asked)
    project.run("AGAIN now", resume=session)
    assert len(model.asked) > asked

"""Questions about a text are answered by a process that is ended when it takes too long, and holds nobody else."""

import threading
from itertools import repeat

import pytest

from dashboard.database.threads import DatabaseThreads
from dashboard.problems import Problem
from dashboard.workers.loop import framed, pieces_from
from dashboard.workers.pool import Worker, Workers
from workspaces.programs.kept_text import asking

CSV = b"name,size\nalpha,3\nbeta,12\n"
SLOW = "(a+)+b"
HUGE = """
    WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 1000)
    SELECT n, randomblob(900000) AS big FROM r ORDER BY big
"""


@pytest.fixture
def reader(monkeypatch):
    """The only process for questions."""
    mine = Workers(lambda: Worker("workspaces.programs.kept_text"), 1, queue_seconds=0.2)
    monkeypatch.setattr(asking, "readers", mine)
    yield mine
    mine.end()


def refusal(ask, *given, **wish) -> Problem:
    with pytest.raises(Problem) as error:
        ask(*given, **wish)
    return error.value


def test_one_process_answers_both_kinds_of_question_in_turn(reader):
    def pieces():
        return iter([CSV[:7], b"", CSV[7:]])

    assert asking.search(pieces, "^b", ignore_case=True)["lines"][0]["text"] == "beta,12"
    first = reader.idle[0].process.pid
    assert asking.query(pieces, "SELECT sum(size) FROM output")["rows"] == [[15]]
    assert refusal(asking.query, pieces, "DROP TABLE output").status == 422
    assert refusal(asking.search, pieces, "(").detail.startswith("The pattern cannot be read")
    # What is left of a text that nobody read to its end does not become the next request.
    assert asking.search(lambda: [b"a\n" * 1000] * 1000, "a", limit=1)["more_from"] == 2
    assert asking.query(pieces, "SELECT 1")["rows"] == [[1]]
    assert [worker.process.pid for worker in reader.idle] == [first]


def test_a_pattern_that_takes_forever_is_ended_and_the_next_question_answered(reader, monkeypatch):
    monkeypatch.setattr(asking, "SECONDS", 2.0)
    refused = refusal(asking.search, lambda: [b"a" * 60], SLOW)
    assert (refused.status, refused.detail) == (
        422,
        "There is no answer, because it took too long. Ask for less, or in a simpler way.",
    )
    assert reader.idle == []
    monkeypatch.setattr(asking, "SECONDS", 20.0)
    assert asking.search(lambda: [b"aab"], SLOW)["found"] == 1


def test_a_query_has_a_limit_of_memory_and_the_process_lives_on(reader, monkeypatch):
    monkeypatch.setattr(asking, "SECONDS", 200.0)
    refused = refusal(asking.query, lambda: [CSV], HUGE)
    assert (refused.status, refused.detail) == (
        422,
        "There is no answer, because it needs more memory than a question may use.",
    )
    assert asking.query(lambda: [CSV], "SELECT count(*) FROM output")["rows"] == [[2]]


def test_a_process_that_cannot_read_a_text_to_its_end_goes_on_with_no_request():
    class Full:
        """Gives the lengths of frames, and has no memory for what they hold."""

        def __init__(self):
            self.lengths = filter(lambda frame: len(frame) == 4, framed([b"a" * 1000]))

        def read(self, size):
            if size > 4:
                raise MemoryError
            return next(self.lengths)

    with pytest.raises(EOFError):
        list(pieces_from(Full()))


def test_who_finds_no_process_free_is_told_to_come_again(reader):
    reader.turns.ask("")
    refused = refusal(asking.search, lambda: [CSV], "a")
    assert (refused.status, refused.detail) == (503, "Too many others search and query now. Try again in a moment.")


def test_slow_questions_of_agents_leave_a_process_for_people(monkeypatch):
    mine = Workers(lambda: Worker("workspaces.programs.kept_text"), 2, queue_seconds=0.2, for_people=1)
    monkeypatch.setattr(asking, "readers", mine)
    mine.turns.ask("an agent")
    assert refusal(asking.search, lambda: [CSV], "a", who="another").status == 503
    monkeypatch.setattr(mine, "queue_seconds", 20.0)
    assert asking.search(lambda: [CSV], "alpha")["found"] == 1
    mine.end()


def test_who_waits_for_an_answer_holds_up_no_other_request(reader):
    one, may_end = DatabaseThreads(1, "one"), threading.Event()
    one.queries = DatabaseThreads(1, "asks")

    def slow():
        yield b"alpha\n"
        may_end.wait(20)
        yield b"beta\n"

    asked = one.submit(asking.search, slow, "a")
    assert one.submit(int).result(20) == 0
    may_end.set()
    assert asked.result(20)["found"] == 2
    one.shutdown()
    one.queries.shutdown()


def test_a_text_without_an_end_is_read_for_as_long_as_a_question_may_take(reader, monkeypatch):
    monkeypatch.setattr(asking, "SECONDS", 2.0)
    assert "because it took too long" in refusal(asking.search, lambda: repeat(b"a\n" * 1000), "b").detail
    assert reader.idle == []


def test_a_text_that_cannot_be_read_is_refused_as_its_reader_says(reader):
    def away():
        yield b"begun"
        raise Problem(503, "The host is away.")

    assert refusal(asking.search, away, "a").detail == "The host is away."
    assert asking.search(lambda: [CSV], "alpha")["found"] == 1

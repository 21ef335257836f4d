"""While the fortnight is told into SQLite, the running product gets as much time to write as the story takes."""

from random import Random

from deploy.demo.fortnight.pace import LONGEST, LOOK, Pace


class World:
    """A clock that only writing and waiting move."""

    def __init__(self):
        self.now, self.free = 0.0, []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.free.append(seconds)


def test_the_database_is_free_as_long_as_it_was_written_to_and_soon():
    world, random = World(), Random(7)
    pace, since, written = Pace(world.clock, world.sleep), 0.0, 0.0
    for _ in range(500):
        before = len(world.free)
        pace.leave_free()
        if len(world.free) > before:
            assert world.free[-1] >= max(since, LOOK)
            since = 0.0
        assert since < LONGEST
        with pace.writing():
            took = random.choice([1 / 64, 1 / 16, 1 / 4, 2.0])
            world.now += took
        since, written = since + took, written + took
    assert sum(world.free) >= written - since - LONGEST

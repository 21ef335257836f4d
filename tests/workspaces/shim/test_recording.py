"""The recording alone: what is kept, what is a gap, what a reader sees."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspaces.shim.recording import Gap, Output, Reader, Recorder, segments


@pytest.fixture
def folder(ground):
    return ground


def test_all_is_kept_below_the_cap(folder):
    recorder = Recorder(folder, 1 << 20)
    for number in range(100):
        recorder.write(b"%03d\n" % number)
    recorder.close()
    assert (recorder.total, recorder.truncated) == (400, False)
    assert read(folder) == [Output(0, b"".join(b"%03d\n" % number for number in range(100)))]


def test_a_reader_of_nothing_gets_nothing_until_something_comes(folder):
    recorder = Recorder(folder, 1 << 20)
    reader = Reader(folder)
    assert reader.next() is None
    recorder.write(b"a")
    assert reader.next() == Output(0, b"a")
    assert reader.next() is None
    recorder.close()
    reader.close()


def test_a_reader_past_the_end_waits_until_its_offset_is_written(folder):
    recorder = Recorder(folder, 1 << 20)
    reader = Reader(folder, 3)
    recorder.write(b"abc")
    assert reader.next() is None
    recorder.write(b"def")
    assert reader.next() == Output(3, b"def")
    recorder.close()
    reader.close()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    cap=st.integers(8192, 200_000),
    total=st.integers(0, 600_000),
    offset=st.integers(0, 700_000),
)
def test_head_and_tail_are_exact_and_the_rest_is_one_gap(tmp_path_factory, seed, cap, total, offset):
    folder = tmp_path_factory.mktemp("recording")
    chance = random.Random(seed)
    whole = chance.randbytes(total)
    recorder = Recorder(folder, cap)
    live = Reader(folder, 0)
    seen = []
    written = 0
    while written < total:
        size = chance.randrange(1, 50_000)
        recorder.write(whole[written : written + size])
        written += size
        if chance.random() < 0.3:
            seen += take(live)
    recorder.close()
    seen += take(live)
    live.close()
    assert recorder.total == total
    check(seen, whole, 0)
    parts = read(folder, offset)
    check(parts, whole, offset)
    assert len([part for part in parts if isinstance(part, Gap)]) <= 1
    kept = sum(size for _start, size in segments(folder))
    assert kept <= cap + max(4096, cap // 16)  # the cap, and at most one segment more
    if total <= cap // 2:
        assert (kept, recorder.truncated) == (total, False)
    elif total > 2 * cap:
        assert recorder.truncated
        assert kept >= cap * 3 // 4 - 2 * 4096


def check(parts, whole: bytes, offset: int) -> None:
    """Every byte comes once and right, or is in a gap."""
    for part in parts:
        if isinstance(part, Gap):
            assert part.start == offset
            offset = part.end
        else:
            assert (part.offset, part.data) == (offset, whole[offset : offset + len(part.data)])
            offset += len(part.data)
    assert offset >= len(whole)


def take(reader: Reader) -> list:
    found = []
    while (part := reader.next()) is not None:
        found.append(part)
    return found


def read(folder, offset: int = 0) -> list:
    reader = Reader(folder, offset)
    try:
        return take(reader)
    finally:
        reader.close()


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 2048), min_size=20, max_size=60))
def test_output_about_to_be_dropped_is_announced(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("recording")
    recorder = Recorder(folder, 16384)
    recorder.write(bytes(16384))
    for size in sizes:
        said, kept = recorder.about_to_drop(2048), [start for start, _ in segments(folder)]
        recorder.write(bytes(size))
        gone = set(kept) - {start for start, _ in segments(folder)}
        assert said or not gone
        if gone:
            assert max(gone) < said == min(start for start, _ in segments(folder) if start)
    recorder.close()

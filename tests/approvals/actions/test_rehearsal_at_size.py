"""`rm -rf build && make` over 10,000 files: shown, and applied to the byte, over a kill of the runner on the way.

The other points of a kill are tried with fewer files, in `test_rehearsal_crashes.py`.
"""

import pytest

from tests.approvals.actions.test_rehearsal_crashes import APPLIED, until
from tests.approvals.actions.test_rehearsals import Rehearsing
from tests.support.product import Product

from ..conftest import ACTIONS

FILES = 10_000
TRIED = "rehearse.ran"
# Make writes the files itself, without a process for each. No two runs make the same.
MAKEFILE = f"""
STAMP := $(shell date +%s%N)
all: $(addprefix build/,$(addsuffix .o,$(shell seq {FILES})))
build/%.o: src/%.c
\t$(file >$@,$(file <$<) $(STAMP))
"""
MADE = "rm -rf build && mkdir build && make -s && cat build/*.o | sha256sum"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("size")
    armed = ",".join(f"{point}:{folder / point}" for point in (TRIED, *APPLIED))
    product = Product(folder / "home", HANDRAIL_HELD="1", HANDRAIL_FAILPOINT=armed)
    product.start()
    try:
        desk = Rehearsing(product)
        desk.put("Makefile", MAKEFILE.encode())
        desk.run(f"mkdir -p build src; for n in $(seq {FILES}); do echo $n > src/$n.c; echo old > build/$n.o; done")
        yield desk
    finally:
        product.clean_up()


def test_what_make_made_is_applied_to_the_byte_over_kills(desk):
    asked, before = desk.ask_for(MADE), desk.content()
    flag = desk.product.home.parent / TRIED
    flag.touch()
    assert desk.rehearse(asked)["status"] == "failed"
    assert not flag.exists()
    assert (desk.content(), desk.leftovers()) == (before, [])
    found = until(lambda: desk.rehearse(asked))
    assert (found["status"], found["exit_status"], found["change_count"]) == ("done", 0, FILES), found
    assert desk.content() == before
    for point in APPLIED:
        (desk.product.home.parent / point).touch()
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    until(lambda: desk.ok("GET", f"{ACTIONS}/{asked['id']}")["status"] == "succeeded", within=300)
    after = desk.content()
    made = {path for path in after if after[path] != before.get(path)}
    assert (made, before.keys() - after) == ({f"build/{n}.o" for n in range(1, FILES + 1)}, set())
    stamps = {after[f"build/{n}.o"][1].removeprefix(b"%d " % n) for n in range(1, FILES + 1)}
    assert len(stamps) == 1, stamps
    desk.run(f"test \"$(cat build/*.o | sha256sum)\" = '{found['output'].strip()}'")
    assert [point for point in APPLIED if (desk.product.home.parent / point).exists()] == []

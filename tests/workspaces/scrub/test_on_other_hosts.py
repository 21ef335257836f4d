"""What several hosts found or removed, together."""

from dataclasses import replace

from workspaces.services.scrub.places import FILE, OUTPUT, Place, without_twins

OF_A_PROGRAM = Place(OUTPUT, "output of a command", "make", pk="7")
LEFT = replace(OF_A_PROGRAM, why_kept="its files could not be written: Read-only file system")


def test_what_is_on_several_hosts_counts_once():
    files = Place(FILE, "live files", "files in /workspace")
    assert without_twins([OF_A_PROGRAM], [OF_A_PROGRAM, files, files]) == [files, files]
    assert without_twins([], [OF_A_PROGRAM, OF_A_PROGRAM]) == [OF_A_PROGRAM]


def test_what_a_purge_left_on_another_host_is_said_though_it_was_removed_here():
    assert without_twins([OF_A_PROGRAM], [LEFT, OF_A_PROGRAM]) == [LEFT]
    assert without_twins([OF_A_PROGRAM, LEFT], [LEFT]) == []

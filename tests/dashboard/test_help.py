"""`manage.py help` names Handrail's commands first, each in a group and with a line on what it does."""

from django.core.management import get_commands

from dashboard.management import command_line

DJANGOS_UNDER_OUR_NAME = {"makemessages"}


def test_each_command_of_ours_stands_in_one_group():
    grouped = [name for names in command_line.GROUPS.values() for name in names]
    apps = ("dashboard", "workspaces", "approvals")
    ours = {name for name, app in get_commands().items() if app in apps} - DJANGOS_UNDER_OUR_NAME
    assert sorted(grouped) == sorted(ours)


def test_the_overview_has_a_line_for_each_of_ours_and_one_for_the_rest():
    lines = command_line.CommandLine(["manage.py"]).main_help_text().splitlines()
    commands = get_commands()
    for names in command_line.GROUPS.values():
        for name in names:
            line = next(line for line in lines if line.split()[:1] == [name])
            assert 20 < len(command_line.summary(commands, name)) <= 100, line
    assert lines[2] == "Start"
    assert lines[-1].startswith("Of Django and others: ")
    assert "migrate" in lines[-1]
    assert all(len(line) <= 125 for line in lines[:-1])


def test_help_of_one_command_is_djangos(capsys):
    try:
        command_line.CommandLine(["manage.py", "help", "doctor"]).execute()
    except SystemExit:
        pass
    assert "usage: manage.py doctor" in capsys.readouterr().out

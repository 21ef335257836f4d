"""`manage.py devcontainer` shows what a devcontainer.json becomes, and saves it."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from workspaces.models import Environment

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    def write(**properties):
        (tmp_path / ".devcontainer").mkdir(exist_ok=True)
        (tmp_path / ".devcontainer" / "devcontainer.json").write_text(json.dumps(properties))
        return str(tmp_path)

    return write


def run(*arguments) -> str:
    out = io.StringIO()
    call_command("devcontainer", *arguments, stdout=out)
    return out.getvalue()


def test_each_save_is_the_next_version_of_the_environment(folder, team):
    first = run(folder(image="debian:12", postCreateCommand="make"), "--team", team.slug, "--save", "dcs")
    second = run(folder(image="debian:12", postCreateCommand="make all"), "--team", team.slug, "--save", "dcs")
    same = run(folder(image="debian:12", postCreateCommand="make all"), "--team", team.slug, "--save", "dcs")
    assert [told.splitlines()[-1] for told in (first, second, same)] == [
        "Saved version 1 of dcs.",
        "Saved version 2 of dcs.",
        "Saved version 2 of dcs.",
    ]
    newest = Environment.objects.filter(team=team, name="dcs").order_by("-version")[0]
    assert (newest.driver, newest.image, "make all" in newest.setup) == ("docker", "debian:12", True)


def test_what_has_no_effect_or_is_refused_is_named(folder):
    told = run(folder(image="debian:12", forwardPorts=[80], privileged=True))
    assert [line for line in told.splitlines() if not line.startswith(" ")] == ["Used:", "Without effect:", "Refused:"]


def test_a_team_that_is_not_there_or_a_folder_without_a_file_is_an_error(folder, team, tmp_path):
    with pytest.raises(CommandError, match="There is no team nowhere"):
        run(folder(image="debian:12"), "--team", "nowhere", "--save", "dcs")
    with pytest.raises(CommandError):
        run(str(tmp_path / "nothing"))

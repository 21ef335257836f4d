"""Search everything for a value: in rows of every kind, recordings, files of snapshots, in its usual encodings."""

import base64
import json
import urllib.parse
import zlib

import pytest
from django.apps import apps

from dashboard.database import clock
from dashboard.models import Agent, Event, Team
from dashboard.problems import Problem
from tests.support.connections import elsewhere
from workspaces import secrets
from workspaces.models import Snapshot, Workspace
from workspaces.services import archives
from workspaces.services.scrub import rows
from workspaces.services.scrub.places import SNAPSHOT
from workspaces.services.scrub.search import search
from workspaces.services.scrub.value import Wanted

from .conftest import BY, VALUE

PLAIN = VALUE.encode()


def found(team, wanted) -> dict[str, list]:
    """{what: places} of a search."""
    told: dict[str, list] = {}
    for place in search(team, wanted)[0]:
        told.setdefault(place.what, []).append(place)
    return told


@pytest.mark.parametrize(
    "encoded",
    [
        PLAIN,
        base64.b64encode(PLAIN),
        base64.b64encode(b"x" + PLAIN + b"y"),
        base64.urlsafe_b64encode(b"xx" + PLAIN),
        urllib.parse.quote(VALUE).encode(),
        urllib.parse.quote_plus(VALUE).encode(),
        json.dumps({"a": VALUE}).encode(),
    ],
)
def test_a_value_is_found_and_removed_in_its_usual_encodings(wanted, encoded):
    data = b"before " + encoded + b" after"
    assert (wanted.is_in(data), wanted.is_in(wanted.out_of_bytes(data))) == (True, False)
    assert len(wanted.out_of_bytes(data)) == len(data)
    assert "before " in wanted.out_of(data.decode())
    assert "[purged]" in wanted.out_of(data.decode())


@pytest.mark.parametrize("value", ["", "short", "a" * 20_000, "\ud800 is no text"])
def test_invalid_values_are_refused(value):
    with pytest.raises(Problem):
        Wanted(value)


def test_messages_prompts_arguments_the_log_and_descriptions_are_searched(team, workspace, said, ask, wanted):
    ask({"command": f"curl -H {VALUE!r} https://example.org"}, reasoning=f"It needs {VALUE}")
    Workspace.objects.filter(pk=workspace.pk).update(description=f"with {VALUE}")
    Event.objects.record(team, actor=BY, verb="workspace.described", subject=workspace, data={"description": VALUE})
    told = found(team, wanted)
    assert {what: len(places) for what, places in told.items()} == {
        "action": 1,
        "action message": 1,
        "agent message": 1,
        "event": 1,
        "revision": 1,
        "session prompt": 1,
        "workspace": 1,
    }
    assert told["event"][0].why_kept == "the hash chain of the log binds each event"
    assert told["workspace"][0].workspace == workspace.key
    assert not any(wanted.is_in_text(json.dumps(place.as_json())) for places in told.values() for place in places)


def test_every_model_of_a_team_with_texts_is_searched():
    """What isn't is of one person or of the installation; a new model of a team is searched without being named."""
    searched = {part.model for part in rows.parts()}
    models = [one for one in apps.get_models() if one._meta.app_label in rows.APPS and not one._meta.proxy]
    left_out = {one.__name__ for one in models if one not in searched and not rows.paths_to_team(one)}
    assert left_out == {
        "BackupPlan",
        "Banner",
        "Channel",
        "HostAuthority",
        "IdentityProvider",
        "JoinToken",
        "SharedAgentProgram",
        "NotificationSettings",
        "PushSubscription",
        "Runner",
        "SavedView",
        "SignInLink",
    }


def test_output_is_searched_across_the_files_of_a_recording(team, recorded, wanted):
    command = recorded(b"a" * 10 + PLAIN[:9], PLAIN[9:] + b"\n")
    recorded(b"nothing here")
    [place] = found(team, wanted)["output of a command"]
    assert (place.pk, place.why_kept) == (str(command.pk), "")


def test_files_of_snapshots_are_searched_with_those_in_the_trash(team, kept, wanted):
    kept(1, {"a/b/config.env": f"KEY={VALUE}", "clean": "x"})
    kept(2, {"clean": "x"})
    third = kept(3, {f"named {VALUE.replace('/', '-')}": "", "blob": base64.b64encode(PLAIN).decode()})
    Snapshot.objects.filter(number=1).update(trashed_at=third.created_at)
    first, current = sorted(found(team, wanted)["snapshot"], key=lambda place: place.name)
    assert (first.name, first.paths, first.count, first.why_kept) == (
        "snapshot 1 (in the trash)",
        ("a/b/config.env",),
        1,
        "",
    )
    assert (current.name, current.paths) == ("snapshot 3", ("blob",))
    assert current.why_kept.startswith("it is the current snapshot")


def test_a_single_object_of_git_is_unpacked(team, workspace, kept, tmp_path, wanted):
    folder = tmp_path / "files-3" / ".git/objects/ab"
    folder.mkdir(parents=True)
    (folder / "cdef").write_bytes(zlib.compress(b"blob 28\0" + PLAIN))
    kept(3, {})
    [place] = found(team, wanted)["snapshot"]
    assert place.paths == (".git/objects/ab/cdef",)


def test_archives_and_uploads_are_unpacked_while_they_are_searched(team, workspace, kept, wanted):
    snapshot = kept(3, {"config.env": VALUE})
    archives.write(snapshot, {})
    [place] = found(team, wanted)["archive for download"]
    assert (place.name, place.workspace) == (f"{snapshot.pk}.tar.zst", workspace.key)


def test_a_stored_secret_is_named_and_not_its_value(team, wanted):
    secrets.save(team, "NPM_TOKEN", "agent", VALUE, by=BY)
    [place] = found(team, wanted)["secret"]
    assert (place.name, "kept encrypted" in place.why_kept) == ("NPM_TOKEN", True)


def test_another_teams_rows_are_not_searched(team, other_team, workspace, said, wanted):
    assert search(other_team, wanted)[0] == []


def test_a_search_tells_its_progress_and_can_be_stopped(team, said, wanted):
    steps = []
    search(team, wanted, lambda step, found: steps.append((step, found)))
    assert list(dict.fromkeys(step for step, _ in steps)) == [
        "rows",
        "secrets",
        "programs",
        "downloads",
    ]
    assert steps[-1] == ("downloads", 3)


@pytest.mark.django_db(transaction=True)
def test_a_search_goes_on_while_it_and_others_write(team, agent, workspace, kept, recorded, wanted):
    """Its progress is written while it reads, and so are heartbeats, commands and files of live workspaces."""
    kept(1, {"a": f"x {VALUE} y"})
    recorded(PLAIN)
    fields = {"entries": 0, "bytes": 0, "added_bytes": 0, "created_at": clock.now(), "kind": "manual"}
    tree = workspace.snapshots.get(number=1).tree
    Snapshot.objects.bulk_create(
        Snapshot(workspace=workspace, number=number, tree=tree, **fields) for number in range(1001, 2201)
    )

    def write_on_both(step, found):
        if found % 150:
            return
        elsewhere(lambda: Team.objects.filter(pk=team.pk).update(name=f"{step} {found}"))
        Agent.objects.filter(pk=agent.pk).update(last_seen_at=clock.now())

    places, _ = search(team, wanted, write_on_both)
    assert len([place for place in places if place.kind == SNAPSHOT]) > 1200

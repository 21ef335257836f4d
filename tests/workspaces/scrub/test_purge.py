"""Purge a value: it leaves what may be changed, what may not is named with its reason, and a receipt is signed."""

import json
import zlib

import pytest
from django.core.exceptions import ObjectDoesNotExist

from approvals.models import (
    Action,
    ActionMessage,
    AgentDocument,
    AgentMessage,
    AgentRun,
    DecisionEvidence,
    Revision,
    SessionPrompt,
)
from approvals.protocols import documents
from dashboard.database import clock
from dashboard.keys import log_key
from dashboard.models import Event
from dashboard.people.access import Caller
from handrail_verify import signed
from handrail_verify.log import verify as verify_log
from handrail_verify.signed import BadManifest
from workspaces import secrets
from workspaces.host import paths
from workspaces.models import Artifact, Secret, Snapshot
from workspaces.runner.operations.scrub_purge import _collect
from workspaces.services import archives
from workspaces.services.retention import holds
from workspaces.services.scrub import purging, receipts, rows, rules
from workspaces.services.scrub.search import search
from workspaces.services.scrub.value import Wanted
from workspaces.store import Store
from workspaces.store.index.rebuild import reindex
from workspaces.store.index.segment import merged
from workspaces.store.progress import Watch

from .conftest import BY, VALUE

PLAIN = VALUE.encode()
TEXTS = {"CharField", "TextField"}


@pytest.fixture
def purge(team, wanted):
    def carry_out(*snapshots, past_holds=False) -> purging.Purged:
        ids = [str(snapshot.pk) for snapshot in snapshots]
        return purging.purge(team, wanted, snapshots=ids, past_holds=past_holds, by=BY)

    return carry_out


def whys(done: purging.Purged) -> dict[str, str]:
    """{what: why} of what stayed."""
    return {place.what: place.why_kept for place in done.kept}


def on_disk(team) -> bytes:
    """Every object that the packs of the team's store hold, also those that its index does not name."""
    place = paths.store_of(team.pk)
    reindex(place, Watch())
    catalog = Store.open(place).catalog
    catalog.refresh()
    return b"".join(catalog.blob(content) for content in merged(catalog.view.segments.values()))


# Rows ----------------------------------------------------------------------------------------------------------------


def test_messages_and_prompts_are_told_without_it(purge, said):
    done = purge()
    texts = [row.text for model in (ActionMessage, AgentMessage, SessionPrompt) for row in model.objects.all()]
    assert (texts, len(done.removed), done.kept) == (["Why [purged]?", "Use [purged]", "a\n[purged]"], 3, [])


def test_an_action_that_is_over_loses_its_texts_and_keeps_what_decisions_are_bound_to(purge, ask, decide, bob):
    action = ask({"command": f"curl -u {VALUE!r} https://example.org"}, reasoning=f"It needs {VALUE}")
    assert whys(purge())["action"] == "the action is not over: deny or cancel it first"
    action.refresh_from_db()
    decide(action, "deny", by=bob, comment=f"Not with {VALUE}")
    done = purge()
    assert whys(done) == {"revision": "decisions are bound to its digest, and passkeys sign that"}
    action.refresh_from_db()
    assert (action.reasoning, VALUE in action.title) == ("It needs [purged]", False)
    assert action.decisions.get().comment == "Not with [purged]"
    assert b"curl -u" in bytes(Revision.objects.get().canonical)


def test_the_log_verifies_afterwards(purge, team, workspace, said):
    Event.objects.record(team, actor=BY, verb="workspace.described", subject=workspace, data={"description": VALUE})
    done = purge()
    receipts.write(team, done, about="a value", fingerprint="f", reason="test", by=BY, asked_at=clock.now())
    lines = [json.dumps(event.as_export()).encode() for event in Event.objects.filter(team=team).order_by("seq")]
    assert verify_log(lines).last == len(lines)


def test_evidence_goes_as_a_whole_since_markup_may_stand_inside_of_the_value(purge, ask, decide, bob):
    action = ask()
    decide(action, by=bob)
    Action.objects.update(status="failed")
    html = VALUE.replace('"', "&quot;").replace("/", "</span><span>/")
    body = zlib.compress(json.dumps({"html": f"<span>{html}</span>"}).encode())
    DecisionEvidence.objects.update_or_create(decision=action.decisions.get(), defaults={"body": body})
    done = purge()
    assert ([place.what for place in done.removed], DecisionEvidence.objects.count()) == (["decision evidence"], 0)


def test_a_document_of_an_agent_goes_as_a_whole(purge, agent):
    caller = Caller(roles={agent.team_id: "agent"}, agent=agent)
    for name, text in (("leaks", f"with {VALUE}"), ("harmless", "without it")):
        documents.put(caller, name, {"text": text}, seen="")
    done = purge()
    assert (len(done.removed), done.kept) == (1, [])
    assert [row.name for row in AgentDocument.objects.all()] == ["harmless"]


def test_a_name_and_a_stored_secret_stay_and_say_why(purge, team, agent, wanted):
    type(agent).objects.filter(pk=agent.pk).update(name=VALUE)
    secrets.save(team, "NPM_TOKEN", "agent", VALUE, by=BY)
    done = purge()
    assert (set(whys(done)), done.removed) == ({"agent", "secret"}, [])
    assert Secret.objects.count() == 1
    assert not any(wanted.is_in_text(place.name) for place in done.kept)


# Programs ------------------------------------------------------------------------------------------------------------


def test_recordings_keep_their_length_and_lose_the_value(purge, workspace, recorded):
    command = recorded(b"a" * 10 + PLAIN[:9], PLAIN[9:] + b"\n", shown=f"echo {VALUE}")
    folder = paths.program_of(workspace.pk, command.operation_id)
    assert purge().kept == []
    first, second = sorted(folder.glob("output*"))
    text = first.read_bytes() + second.read_bytes()
    assert text == b"a" * 10 + b"[purged]".ljust(len(PLAIN), b"*") + b"\n"
    assert first.stat().st_size == 19
    command.refresh_from_db()
    assert command.shown == "echo [purged]"
    assert "[purged]" in (folder / "spec.json").read_text()


def test_a_program_that_runs_is_left_alone(purge, workspace, recorded):
    command = recorded(PLAIN, ended=False)
    done = purge()
    assert whys(done)["output of a command"] == "the program has not ended"
    assert (paths.program_of(workspace.pk, command.operation_id) / "output").read_bytes() == PLAIN


# Snapshots -----------------------------------------------------------------------------------------------------------


def test_chosen_snapshots_are_deleted_and_their_bytes_leave_the_disk(purge, team, workspace, kept, wanted):
    first = kept(1, {"config.env": f"KEY={VALUE}", "kept": "stays"})
    second = kept(2, {"other.env": f"KEY={VALUE}", "kept": "stays"})
    kept(3, {"kept": "stays"})
    archives.write(second, {})
    assert PLAIN in on_disk(team)
    done = purge(second)
    assert whys(done) == {"snapshot": purging.NOT_CONFIRMED}
    _collect(team, done)
    done = purge(first)
    _collect(team, done)
    workspace.refresh_from_db()
    assert list(Snapshot.objects.values_list("number", flat=True)) == [3]
    assert (workspace.baseline.number, workspace.head.number) == (3, 3)
    assert (PLAIN in on_disk(team), b"stays" in on_disk(team)) == (False, True)
    assert (done.freed["contents_with_the_value_left"], done.freed["removed_objects"] > 0) == (0, True)
    assert list(archives.folder_of(workspace.pk).iterdir()) == []
    verbs = Event.objects.filter(verb="snapshot.purged").order_by("seq")
    assert [event.data["number"] for event in verbs] == [2, 1]
    assert search(team, wanted)[0] == []


def test_the_source_as_it_came_is_named_and_forgotten(purge, team, workspace, kept, wanted):
    first = kept(1, {"config": f"KEY={VALUE}"})
    last = kept(2, {"config": "KEY=none"})
    workspace.source = {"upload": "x", "tree": first.tree_hex}
    workspace.save(update_fields=["source"])
    Snapshot.objects.filter(pk=first.pk).delete()
    found, _ = search(team, wanted)
    assert [(place.what, place.paths, place.why_kept) for place in found] == [("files of a source", ("config",), "")]
    done = purge()
    _collect(team, done)
    workspace.refresh_from_db()
    assert (workspace.source, [place.what for place in done.removed]) == ({"upload": "x"}, ["files of a source"])
    assert PLAIN not in on_disk(team)
    assert Store.open(paths.store_of(team.pk)).catalog.holds(bytes(last.tree))


def test_the_current_snapshot_stays_and_a_hold_only_goes_when_that_is_reported(purge, team, workspace, kept):
    held = kept(1, {"config.env": VALUE})
    current = kept(3, {"config.env": VALUE})
    holds.hold(team, snapshot=held, reason="an audit", by=BY)
    done = purge(held, current)
    assert sorted(place.why_kept for place in done.kept) == [
        "it is on hold: an audit",
        "it is the current snapshot: take the value out of the files and take a snapshot first",
    ]
    assert Snapshot.objects.filter(number__in=[1, 3]).count() == 2
    assert [place.name for place in purge(held, past_holds=True).removed] == ["snapshot 1"]


def test_an_artifact_keeps_its_files_and_is_named(purge, team, workspace, kept, wanted):
    snapshot = kept(1, {"config.env": VALUE})
    kept(2, {"clean": "x"})
    fields = {"snapshot_number": 1, "name": "the build", "created_at": clock.now(), "key": workspace.key}
    artifact = Artifact.objects.create(team=team, workspace=workspace, tree=snapshot.tree, **fields)
    assert [place.what for place in search(team, wanted)[0]] == ["snapshot", "artifact"]
    done = purge(snapshot)
    _collect(team, done)
    assert whys(done) == {"artifact": "people keep its files: delete the artifact on its page, and purge again"}
    assert (PLAIN in on_disk(team), done.freed["contents_with_the_value_left"]) == (True, 1)
    artifact.delete()
    done = purge()
    assert (done.kept, done.removed) == ([], [])


# The receipt ---------------------------------------------------------------------------------------------------------


def test_the_receipt_is_signed_and_holds_no_value(purge, team, said, recorded, wanted, alice, api, token_of):
    recorded(PLAIN, ended=False)
    done = purge()
    about = {"about": "a value", "fingerprint": wanted.fingerprint, "reason": "a leak"}
    receipt = receipts.write(team, done, **about, by=BY, asked_at=clock.now())
    told = api(token_of(alice)).get(f"/api/v1/purges/{receipt.pk}")
    body = signed.verify(told.content, log_key.public_key(), signed.RECEIPT_PREFIX)
    assert {group["what"]: group["count"] for group in body["removed"]} == {
        "action message": 1,
        "agent message": 1,
        "session prompt": 1,
    }
    assert [(group["what"], group["because"]) for group in body["not_removed"]] == [
        ("output of a command", "the program has not ended")
    ]
    assert any("backups" in words for words in body["not_touched"])
    assert not wanted.is_in(told.content)
    event = Event.objects.get(verb="data.purged")
    assert (event.data["sha256"], event.data["removed"], event.data["kept"]) == (receipt.sha256, 3, 1)
    with pytest.raises(BadManifest):
        signed.verify(told.content.replace(b"a leak", b"a loss"), log_key.public_key(), signed.RECEIPT_PREFIX)


@pytest.mark.parametrize("before", range(0, 300, 15))
def test_no_name_of_a_place_keeps_a_part_of_the_value(before):
    """Wherever a name is cut, the value is taken out before."""
    text, wanted = "x" * before + " value-that-leaked-7f3a9c " + "y" * 300, Wanted("value-that-leaked-7f3a9c")
    named = 0
    for part in rows.parts():
        texts = (name for name in part.columns if part.model._meta.get_field(name).get_internal_type() in TEXTS)
        fields = {name: text for name in texts if "sha256" not in name}
        row = part.model(**fields)
        for column in part.model._meta.concrete_fields:
            if column.name == "run" and column.related_model is AgentRun:
                row.run = AgentRun(task=text)
        try:
            name = wanted.out_of(rules.of(part.model).name(row))[:200]
        except (ObjectDoesNotExist, AttributeError, TypeError):
            continue  # it is named after another row
        named += 1
        assert "value-" not in name
        assert "-7f3a9c" not in name, part.name
    assert named > 40

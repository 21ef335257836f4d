"""Keep a manifest: its canonical form, digest and signature; and find one by the name that people give it."""

import hashlib
import re

from dashboard.keys import log_key
from dashboard.problems import invalid, not_found
from dashboard.text.strict_json import canonical
from handrail_verify import signed
from workspaces.models import KEY_PATTERN, Manifest, Workspace
from workspaces.operations import absent

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NAME = re.compile(rf"(?P<key>{KEY_PATTERN})/(?:(?P<number>\d{{1,9}})|run/(?P<run>{UUID}))")


def sign_and_save(body: dict, **of) -> Manifest:
    """Sign the body and create the row of a `snapshot` or a `run` (by `snapshot=`, `run=` or `run_id=`)."""
    text = canonical(body)
    signature = signed.sign(text, log_key.private_key())
    return Manifest.objects.create(body=body, sha256=hashlib.sha256(text).hexdigest(), signature=signature, **of)


def download_of(manifest: Manifest) -> dict:
    """Return the manifest as it is downloaded, with its digest, signature and public key."""
    return signed.as_download(manifest.body, manifest.sha256, manifest.signature, log_key.public_key())


def is_signed(manifest: Manifest) -> bool:
    """Return whether the row's signature is that of its body, by this installation's key."""
    return signed.is_signed(canonical(manifest.body), manifest.signature, log_key.public_key())


def find(who, name: str, *, team_id=None) -> Manifest:
    """Return the manifest named KEY/NUMBER or KEY/run/ID among the workspaces that `who` may see, of one team if given.

    Problem 422 for another form, 404 if there is none.
    """
    asked = NAME.fullmatch(name.strip())
    if asked is None:
        raise invalid("Name a snapshot as KEY/NUMBER, or a resume as KEY/run/ID.")
    seen = Workspace.objects.visible_to(who).filter(key=asked["key"], **({"team": team_id} if team_id else {}))
    rows = Manifest.objects.select_related("snapshot__workspace__team", "run__workspace__team")
    if asked["number"]:
        found = rows.filter(snapshot__workspace__in=seen, snapshot__number=int(asked["number"]))
    else:
        found = rows.filter(run__workspace__in=seen, run=asked["run"])
    # A key can be used again after its workspace was deleted: the newest one counts.
    manifest = found.order_by("-snapshot__created_at", "-run__started_at").first()
    if manifest is None:
        raise not_found("manifest") if seen.kept().exists() else absent.refusal_of_key(seen)
    return manifest


def name_of(manifest: Manifest) -> str:
    """Return KEY/NUMBER of a snapshot's manifest, KEY/run/ID of a resume's."""
    if manifest.snapshot_id:
        return f"{manifest.snapshot.workspace.key}/{manifest.snapshot.number}"
    return f"{manifest.run.workspace.key}/run/{manifest.run_id}"

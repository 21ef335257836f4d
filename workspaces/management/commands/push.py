"""`manage.py push PATH KEY`: send a folder or a tar to Handrail as a new workspace or its next revision."""

import io
import json
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from workspaces.git_files.patterns import matching, parse


class Refused(CommandError):
    """The API refused the request; `told` is the problem it returned."""

    def __init__(self, told: dict):
        super().__init__(told.get("detail", "It was refused."))
        self.told = told


class Command(BaseCommand):
    help = "Send a folder or a tar archive as a new workspace, or as its next revision. The token is in HANDRAIL_TOKEN."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("path", help="a folder, or a tar archive")
        parser.add_argument("key", help="of the workspace")
        parser.add_argument(
            "--ignore", action="append", default=[], help="a pattern in gitignore syntax; may be repeated"
        )
        parser.add_argument("--ignore-file", action="append", default=[], help="a file of such patterns")
        parser.add_argument(
            "--replace", action="store_true", help="replace the files of the workspace instead of merging"
        )
        parser.add_argument(
            "--base", type=int, help="the newest snapshot that you have seen; changes after it are conflicts"
        )

    def handle(self, path, key, ignore, ignore_file, replace=False, base=None, **options):
        if not settings.HANDRAIL_TOKEN:
            raise CommandError("Set HANDRAIL_TOKEN to a token (manage.py create_token).")
        source = Path(path)
        patterns = [*ignore, *(line for name in ignore_file for line in Path(name).read_text().splitlines())]
        with tempfile.TemporaryFile() as archive:
            if source.is_dir():
                for name in pack(source, archive, patterns):
                    self.stderr.write(f"{name} is left out: it is a device.")
            elif source.is_file():
                archive.write(source.read_bytes())
            else:
                raise CommandError(f"There is no {source}.")
            archive.seek(0)
            upload = self._post("/uploads", archive, "application/octet-stream")
        wish = json.dumps({"key": key, "source": {"upload": upload["id"]}}).encode()
        try:
            made = self._post("/workspaces", io.BytesIO(wish), "application/json")
        except Refused as refused:
            if list(refused.told.get("differs", {})) != ["source"]:
                raise
            self._revise(key, {"upload": upload["id"], "mode": "replace" if replace else "merge", "base": base})
            return
        self.stdout.write(f"{made['key']} is {made['state']}: {settings.HANDRAIL_PUBLIC_URL}{made['url']}")

    def _revise(self, key, wish):
        try:
            taken = self._post(
                f"/workspaces/{key}/revisions", io.BytesIO(json.dumps(wish).encode()), "application/json"
            )
        except Refused as refused:
            paths = [conflict["path"] for conflict in refused.told.get("conflicts", [])]
            raise CommandError("\n  ".join([str(refused), *paths])) from None
        if taken["snapshot"] is None:
            self.stdout.write(f"The next revision of {key} is being taken; its page shows the progress.")
            return
        saved = f"the previous files are in snapshot {taken['safety_snapshot']}"
        self.stdout.write(f"{key} is at revision {taken['revision']}, snapshot {taken['snapshot']}; {saved}.")

    def _post(self, address, body, content_type):
        size = body.seek(0, os.SEEK_END)
        body.seek(0)
        headers = {
            "Authorization": f"Bearer {settings.HANDRAIL_TOKEN}",
            "Content-Type": content_type,
            "Content-Length": str(size),
        }
        request = urllib.request.Request(
            f"{settings.HANDRAIL_PUBLIC_URL}/api/v1{address}", data=body, headers=headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(json.load(error)) from None
        except OSError as error:
            raise CommandError(f"Handrail does not answer at {settings.HANDRAIL_PUBLIC_URL}: {error}.") from None


def pack(source: Path, archive, patterns: list[str]) -> list[str]:
    """Write the folder as a tar, without what the patterns (gitignore syntax) match and everything below it.

    Return the paths that no workspace can hold: devices. A tar has no sockets.
    """
    left_out: list[str] = []
    parsed = parse(os.fsencode("\n".join(patterns)))

    def keep(member: tarfile.TarInfo):
        member.uname = member.gname = ""
        if matching(parsed, os.fsencode(member.name), member.isdir()):
            if member.isreg():  # else another name of the file would be written as a link to this one
                found = (source / member.name).lstat()
                tar.inodes.pop((found.st_ino, found.st_dev), None)
            return None
        if member.ischr() or member.isblk():
            left_out.append(member.name)
            return None
        return member

    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(source.iterdir()):
            tar.add(entry, arcname=entry.name, filter=keep)
    return left_out

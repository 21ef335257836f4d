"""An image without a registry: an OCI archive that names it by tag and by digest."""

import hashlib
import json
import tarfile

import pytest

from bench.kubernetes import image

NAME = "docker.io/handrail/tried:1"


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "layer.tar"
    (tmp_path / "hello").write_text("hello")
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "hello", "hello")
    return path


def contents(archive) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}


def test_every_blob_is_at_the_digest_that_names_it(layer, tmp_path):
    image.write(tmp_path / "image.tar", NAME, layer)
    blobs = {name: blob for name, blob in contents(tmp_path / "image.tar").items() if name.startswith("blobs/")}
    assert {name: f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}" for name, blob in blobs.items()} == {
        name: name for name in blobs
    }


def test_the_tag_and_the_digest_name_the_same_manifest(layer, tmp_path):
    digest = image.write(tmp_path / "image.tar", NAME, layer)
    index = json.loads(contents(tmp_path / "image.tar")["index.json"])["manifests"]
    assert {each["annotations"]["io.containerd.image.name"]: each["digest"] for each in index} == {
        NAME: digest,
        f"docker.io/handrail/tried@{digest}": digest,
    }
    assert image.names_in(tmp_path / "image.tar") == [NAME, f"docker.io/handrail/tried@{digest}"]


def test_the_manifest_leads_to_the_layer_and_to_what_is_started(layer, tmp_path):
    digest = image.write(tmp_path / "image.tar", NAME, layer, entrypoint=["/hello"], labels={"of": "a test"})
    blobs = contents(tmp_path / "image.tar")
    manifest = json.loads(blobs[f"blobs/{digest.replace(':', '/')}"])
    config = json.loads(blobs[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert blobs[f"blobs/{manifest['layers'][0]['digest'].replace(':', '/')}"] == layer.read_bytes()
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert (config["config"]["Entrypoint"], config["config"]["Labels"]) == (["/hello"], {"of": "a test"})


def test_the_same_layer_gives_the_same_digest(layer, tmp_path):
    assert image.write(tmp_path / "one.tar", NAME, layer) == image.write(tmp_path / "two.tar", NAME, layer)
    other = image.write(tmp_path / "three.tar", NAME, layer, entrypoint=["/hello"])
    assert other != image.write(tmp_path / "one.tar", NAME, layer)

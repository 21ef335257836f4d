"""Images by digest: pulled from the registries that the operator named, refused in words otherwise."""

import uuid

import pytest
from docker.errors import NotFound

from tests.support.engine import Client
from tests.support.registry import Registry
from tests.workspaces.drivers.runs import OPTIONS, why_not
from workspaces.drivers.base import DriverError, ImageMissing
from workspaces.drivers.docker.engine import Engine
from workspaces.drivers.docker.images import Images

PINNED = "sha256:" + "0" * 64


def images(folder, *pull_from) -> Images:
    """Those of an engine that does not answer, so that what is refused is refused without it."""
    return Images(Engine(f"unix://{folder}/nobody", folder), pull_from)


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("registry.example.org/team/app@" + PINNED, "registry.example.org"),
        ("registry.example.org:5000/team/app:1@" + PINNED, "registry.example.org:5000"),
        ("app@" + PINNED, "docker.io"),
        ("team/app@" + PINNED, "docker.io"),
        ("Inner/app@" + PINNED, "inner"),
    ],
)
def test_a_registry_that_is_not_named_is_not_asked(tmp_path, reference, registry):
    with pytest.raises(ImageMissing) as refused:
        images(tmp_path, "other.example.org").pull(reference)
    assert f"HANDRAIL_PULL_FROM names other.example.org, not its registry {registry}." in str(refused.value)
    with pytest.raises(ImageMissing, match="HANDRAIL_PULL_FROM names none"):
        images(tmp_path).pull(reference)


def test_a_name_without_a_digest_is_never_pulled(tmp_path):
    with pytest.raises(ImageMissing, match="Handrail pulls none automatically"):
        images(tmp_path, "registry.example.org").pull("registry.example.org/team/app:1")


def test_an_absent_engine_is_named(tmp_path):
    with pytest.raises(DriverError, match="does not answer"):
        images(tmp_path, "registry.example.org").pull("registry.example.org/team/app@" + PINNED)


@pytest.fixture
def registry(require):
    if why := why_not("docker", False):
        require("docker", why)
    made = Registry()
    yield made
    made.close()


@pytest.fixture
def of_engine(registry, tmp_path):
    return Images(Engine(OPTIONS["docker"]["address"], tmp_path), (registry.host,))


def test_an_image_is_pulled_by_its_digest_and_found_afterwards(of_engine, registry):
    reference = registry.image(uuid.uuid4().hex)
    with pytest.raises(ImageMissing):
        of_engine.find(reference)
    digest = of_engine.pull(reference)
    try:
        assert of_engine.find(reference)["Id"] == digest
        asked = len(registry.asked)
        assert asked > 0
        assert of_engine.find(reference)["RepoDigests"] == [reference]
        assert len(registry.asked) == asked  # finding it asks no registry
    finally:
        with Client(OPTIONS["docker"]["address"]) as client:
            client.remove_image(reference, force=True)


def test_another_content_under_the_digest_is_refused(of_engine, registry):
    reference = registry.image(uuid.uuid4().hex)
    name = reference.partition("@")[2]
    registry.blobs[name] += b" "
    with pytest.raises(DriverError, match=r"could not be pulled from 127\.0\.0\.1"):
        of_engine.pull(reference)
    with Client(OPTIONS["docker"]["address"]) as client, pytest.raises(NotFound):
        client.inspect_image(reference)


def test_an_image_missing_in_the_registry_is_named(of_engine, registry):
    with pytest.raises(DriverError, match=r"could not be pulled from 127\.0\.0\.1"):
        of_engine.pull(f"{registry.host}/test/nowhere@{PINNED}")


def test_a_tag_is_resolved_to_the_digest_that_the_registry_has_now(of_engine, registry):
    pinned = registry.image(uuid.uuid4().hex)
    name, _, digest = pinned.partition("@")
    registry.tags["3.12"] = digest
    assert of_engine.resolve(f"{name}:3.12") == f"{name}:3.12@{digest}"
    assert of_engine.resolve(pinned) == pinned
    unnamed = Images(of_engine.engine)
    with pytest.raises(ImageMissing, match="HANDRAIL_PULL_FROM names none"):
        unnamed.pull(f"{name}:3.12@{digest}")
    made = unnamed.pull(f"{name}:3.12@{digest}", asked=True)
    try:
        assert unnamed.find(f"{name}:3.12@{digest}")["Id"] == made
    finally:
        with Client(OPTIONS["docker"]["address"]) as client:
            client.remove_image(pinned, force=True)


@pytest.mark.parametrize("reference", ["{host}/test/pinned:none", "127.0.0.1:1/test/app:1", "127.0.0.1:1/test/app"])
def test_a_missing_tag_and_a_silent_registry_are_named(of_engine, registry, reference):
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:\d+ gave no digest for '127\.0\.0\.1"):
        of_engine.resolve(reference.format(host=registry.host))

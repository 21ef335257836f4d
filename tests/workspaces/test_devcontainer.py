"""devcontainer.json: what of it becomes an environment, and what is refused, in words."""

import json

import pytest

from dashboard.problems import Problem
from workspaces.provisioning import devcontainer

COMMENTED = """
// For format details, see https://containers.dev
{
    "name": "Python 3",
    "image": "docker.io/library/python:3.12",  /* the interpreter */
    "forwardPorts": [8000],
    "postCreateCommand": "pip install --user -r requirements.txt",
}
"""


def read(**properties):
    return devcontainer.read(json.dumps(properties))


def test_comments_and_trailing_commas_are_read():
    reading = devcontainer.read(COMMENTED)
    assert reading.name == "Python 3"
    assert reading.fields == {
        "driver": "docker",
        "image": "docker.io/library/python:3.12",
        "setup": "# postCreateCommand\npip install --user -r requirements.txt\n",
    }
    assert [name for name, _ in reading.without_effect] == ["forwardPorts"]
    assert reading.refused == []


def test_commands_of_setup_keep_their_order_and_their_words():
    reading = read(
        postCreateCommand={"web": "npm ci", "api": ["pip", "install", "a b"]},
        onCreateCommand=["echo", "it's"],
        updateContentCommand="cd ${containerWorkspaceFolder}/web && make",
        postStartCommand="service-check",
    )
    assert reading.fields["setup"] == (
        "# onCreateCommand\necho 'it'\"'\"'s'\n"
        "# updateContentCommand\ncd /workspace/web && make\n"
        "# postCreateCommand\nnpm ci\npip install 'a b'\n"
    )
    assert reading.fields["maintenance"] == "service-check\n"


def test_variables_folder_limits_and_secrets_have_their_fields():
    reading = read(
        containerEnv={"NODE_ENV": "development"},
        remoteEnv={"ROOT": "${containerWorkspaceFolder}/x", "EMPTY": ""},
        workspaceFolder="/workspaces/${localWorkspaceFolderBasename}/packages/api",
        hostRequirements={"cpus": 4, "memory": "8gb", "storage": "32gb"},
        secrets={"API_KEY": {"description": "of the shop"}},
    )
    assert reading.fields == {
        "variables": {"NODE_ENV": "development", "ROOT": "/workspace/x", "EMPTY": ""},
        "working_directory": "packages/api",
        "limits": {"cpus": 4, "memory_bytes": 8 * 1024**3, "disk_bytes": 32 * 1024**3},
        "secrets": {"agent": ["API_KEY"]},
    }


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"features": {"ghcr.io/devcontainers/features/node:1": {}}}, "features"),
        ({"initializeCommand": "touch /tmp/on-the-host"}, "initializeCommand"),
        ({"privileged": True}, "privileged"),
        ({"runArgs": ["--net=host"]}, "runArgs"),
        ({"mounts": ["source=/,target=/host,type=bind"]}, "mounts"),
        ({"remoteUser": "root"}, "remoteUser"),
        ({"workspaceFolder": "/srv"}, "workspaceFolder"),
        ({"containerEnv": {"HOME_OF": "${localEnv:HOME}"}}, "containerEnv.HOME_OF"),
        ({"postCreateCommand": "cp ${localWorkspaceFolder}/x ."}, "postCreateCommand"),
        ({"postCreateCommand": 3}, "postCreateCommand"),
        ({"build": {"dockerfile": "Dockerfile"}}, "build"),
        ({"hostRequirements": {"gpu": True}}, "hostRequirements.gpu"),
        ({"notInTheFormat": 1}, "notInTheFormat"),
    ],
)
def test_what_is_not_promised_is_refused_by_name_and_changes_no_field(properties, named):
    reading = read(**properties)
    assert [name for name, _ in reading.refused] == [named]
    assert reading.fields == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not a devcontainer.json"),
        ("[]", "must be an object"),
        ('{"image": "a", "image": "b"}', "not a devcontainer.json"),
        ("[" * 60_000, "not a devcontainer.json"),
        (" " * 70_000, "at most 64 KB"),
        ('{"dockerComposeFile": "compose.yml"}', "Docker Compose"),
    ],
)
def test_what_cannot_be_read_is_refused_whole(text, why):
    with pytest.raises(Problem, match=why):
        devcontainer.read(text)


def test_a_build_names_its_folder_dockerfile_arguments_and_target(tmp_path):
    file = tmp_path / ".devcontainer" / "devcontainer.json"
    file.parent.mkdir()
    build = {"dockerfile": "Dockerfile", "context": "..", "args": {"VARIANT": 3}, "target": "dev", "cacheFrom": "x"}
    file.write_text(json.dumps({"build": build}))
    assert devcontainer.find(tmp_path) == file
    reading = devcontainer.read(file.read_text(), file)
    assert reading.fields == {
        "driver": "docker",
        "image": str(tmp_path),
        "build": {"dockerfile": ".devcontainer/Dockerfile", "args": {"VARIANT": "3"}, "target": "dev"},
    }
    assert [name for name, _ in reading.refused] == ["build.cacheFrom"]


def test_a_build_outside_its_folder_and_arguments_of_the_host_are_refused(tmp_path):
    file = tmp_path / ".devcontainer.json"
    outside = devcontainer.read('{"build": {"dockerfile": "../Dockerfile"}}', file)
    assert (outside.fields, [name for name, _ in outside.refused]) == ({}, ["build"])
    args = devcontainer.read('{"build": {"dockerfile": "Dockerfile", "args": {"A": "${localEnv:TOKEN}"}}}', file)
    assert args.fields["build"] == {"dockerfile": "Dockerfile", "args": {}}
    assert [name for name, _ in args.refused] == ["build.args"]


def test_a_repository_with_several_must_name_one(tmp_path):
    for name in ("api", "web"):
        (tmp_path / ".devcontainer" / name).mkdir(parents=True)
        (tmp_path / ".devcontainer" / name / "devcontainer.json").write_text("{}")
    with pytest.raises(Problem, match="several \\(api, web\\)"):
        devcontainer.find(tmp_path)
    with pytest.raises(Problem, match=r"has no devcontainer\.json"):
        devcontainer.find(tmp_path / "nothing")

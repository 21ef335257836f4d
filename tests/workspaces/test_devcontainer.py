"""devcontainer.json: what of it becomes an environment, and what is refused, in words."""

import json
import subprocess

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
        "setup": "# postCreateCommand\nsh -c 'pip install --user -r requirements.txt' || exit\n",
    }
    assert [name for name, _ in reading.without_effect] == ["forwardPorts"]
    assert reading.refused == []


def run(script: str, folder) -> subprocess.CompletedProcess:
    """Run a script of a Reading as a setup is run, with /workspace being `folder`."""
    script = script.replace("/workspace", str(folder))
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True)


def test_each_command_has_a_shell_and_the_working_directory_of_its_own(tmp_path):
    for name in ("frontend", "backend", "backend/frontend", "web"):
        (tmp_path / name).mkdir()
    reading = read(
        onCreateCommand={"web": "cd frontend && touch web-ready", "api": "cd backend && touch api-ready; exit 0"},
        updateContentCommand=["touch", "it's", "a b", "$HOME", "FOO=bar"],
        postCreateCommand='export A=1; cd ${containerWorkspaceFolder}/web && touch ${NAME:-c} && test -z "$B"',
        postStartCommand="cd web; touch started",
    )
    assert reading.refused == []
    assert run(reading.fields["setup"], tmp_path).returncode == 0
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {"frontend/web-ready", "backend/api-ready", "it's", "a b", "$HOME", "FOO=bar", "web/c"}
    assert run(reading.fields["maintenance"], tmp_path).returncode == 0
    assert (tmp_path / "web/started").exists()


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("exit 3", 3),
        ("false", 1),
        (["false"], 1),
        (["no-such-program"], 127),
        (["exit", "0"], 127),
        ({"a": "true", "b": "exit 4"}, 4),
        ({"a": ["false"], "b": "sleep 0.1; touch b"}, 1),
        ("echo 'unclosed", 2),
        ("# only a comment\n(", 2),
    ],
)
def test_setup_ends_at_the_first_command_that_fails(tmp_path, first, status):
    reading = read(onCreateCommand=first, postCreateCommand="touch never")
    ended = run(reading.fields["setup"], tmp_path)
    assert (ended.returncode, (tmp_path / "never").exists()) == (status, False), ended.stderr
    assert (tmp_path / "b").exists() == (isinstance(first, dict) and "touch b" in first["b"])


def test_commands_of_an_object_run_at_the_same_time(tmp_path):
    wait = "for n in $(seq 300); do test -e {0} && exit 0; sleep 0.02; done; exit 1"
    both = {"x\n# rm": "touch a; " + wait.format("b"), "y": ["sh", "-c", "touch b; " + wait.format("a")]}
    assert run(read(postCreateCommand=both).fields["setup"], tmp_path).returncode == 0


def test_setup_starts_in_the_folder_of_the_workspace_that_is_named(tmp_path):
    folder = tmp_path / "packages/it's"
    folder.mkdir(parents=True)
    reading = read(workspaceFolder="/workspaces/shop/packages/it's", postCreateCommand="touch here", onCreateCommand="")
    assert run(reading.fields["setup"] + "touch after", tmp_path).returncode == 0
    assert [path.name for path in folder.iterdir()] == ["here"]
    assert (tmp_path / "after").exists()  # what a lead adds starts where scripts start
    filled = read(workspaceFolder="/workspace/api", containerEnv={"A": "${containerWorkspaceFolderBasename}"})
    assert filled.fields["variables"] == {"A": "api"}


VALUES = {
    "true": True, "false": False, "1": 1, "1.5": 1.5, "1000": 1e3, "1e-7": 1e-7, "": "", " a ": " a ",
    "info": "${localEnv:LEVEL:info}", "http://x:8": "${localEnv:URL:http://x:8}", "-": "${localEnv:A:}-${env:B:}",
    "12345678901234567890": 12345678901234567890, "${HOME}": "${HOME}", "${X:-y}": "${X:-y}",
    "/workspace": "${containerWorkspaceFolder}", "workspace": "${containerWorkspaceFolderBasename}",
}  # fmt: skip


@pytest.mark.parametrize("where", ["containerEnv", "remoteEnv"])
def test_values_are_written_as_the_format_has_them(where):
    reading = read(**{where: {f"V{n}": value for n, value in enumerate(VALUES.values())}})
    assert reading.refused == []
    assert list(reading.fields["variables"].values()) == list(VALUES)


@pytest.mark.parametrize(
    "value",
    [
        "cache-${devcontainerId}",
        "${localEnv:HOME}",
        "${containerEnv:PATH}:/x",
        "${localWorkspaceFolder}",
        "${env:X}",
        None,
        [1],
        {},
    ],
)
def test_values_that_nothing_here_has_are_refused_by_name(value):
    reading = read(containerEnv={"A": "kept", "B": value}, postCreateCommand=value if isinstance(value, str) else "")
    assert reading.fields == {"variables": {"A": "kept"}}
    assert {name for name, _ in reading.refused} >= {"containerEnv.B"}
    assert all(name in ("containerEnv.B", "postCreateCommand") for name, _ in reading.refused)


MAY_BE_EMPTY = "features mounts capAdd securityOpt runArgs appPort privileged initializeCommand postAttachCommand"
MAY_BE_EMPTY += " remoteUser postCreateCommand containerEnv hostRequirements dockerComposeFile"


@pytest.mark.parametrize("name", MAY_BE_EMPTY.split())
def test_what_is_empty_is_neither_taken_nor_refused(name):
    for value in (None, {}, [], "", False):
        if value or name not in ("containerEnv", "hostRequirements") or value in (None, {}):
            reading = read(**{name: value})
            wrong = name == "postCreateCommand" and value is False
            assert (reading.fields, bool(reading.refused)) == ({}, wrong), (name, value)


@pytest.mark.parametrize("name", ["hostRequirements", "containerEnv", "remoteEnv", "secrets"])
@pytest.mark.parametrize("value", ["text", ["a"], 3, True])
def test_what_is_no_object_is_refused_by_name(name, value):
    reading = read(**{name: value})
    assert (reading.fields, [said for said, _ in reading.refused]) == ({}, [name])


UNREADABLE = [("memory", text) for text in ("1.5gb", "8 gb", "lots", "0gb", 8)] + [("storage", "-1gb")]
UNREADABLE += [("cpus", "4"), ("cpus", True), ("cpus", -1), ("disk", "8gb"), ("gpu", True), ("gpu", {"cores": 1})]


@pytest.mark.parametrize(("name", "value"), UNREADABLE)
def test_requirements_that_cannot_be_read_are_named(name, value):
    reading = read(hostRequirements={name: value, "storage" if name != "storage" else "memory": "1tb"})
    assert [said for said, _ in reading.refused] == [f"hostRequirements.{name}"]
    assert list(reading.fields["limits"].values()) == [1024**4]


def test_an_optional_graphics_processor_has_no_effect():
    reading = read(hostRequirements={"gpu": "optional"})
    assert (reading.fields, reading.refused) == ({}, [])
    assert [said for said, _ in reading.without_effect] == ["hostRequirements.gpu"]


def test_variables_folder_limits_and_secrets_have_their_fields():
    reading = read(
        containerEnv={"NODE_ENV": "development"},
        remoteEnv={"ROOT": "${containerWorkspaceFolder}/x", "EMPTY": ""},
        workspaceFolder="/workspaces/${localWorkspaceFolderBasename}/packages/api",
        hostRequirements={"cpus": 4, "memory": "8gb", "storage": "32gb"},
        secrets={"API_KEY": {"description": "of the shop"}},
    )
    assert reading.fields == {
        "variables": {"NODE_ENV": "development", "ROOT": "/workspace/packages/api/x", "EMPTY": ""},
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

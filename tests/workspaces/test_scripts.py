"""Scripts of an environment run as they are written and end at the first failure; a status is said in words."""

import subprocess

import pytest

from workspaces.drivers import capabilities
from workspaces.provisioning.scripts import UNTIL_A_FAILURE, VENV, of_setup, shell_words


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ('yes | head -1 && echo "$UNSET" && false | true && echo on', 0, "on"),
        ("false; echo on", 1, ""),
        ("set -u; echo $UNSET; echo on", 1, ""),
        ("set -o pipefail; yes | head -1 >/dev/null; echo on", 141, ""),
    ],
)
def test_a_script_ends_at_the_first_command_that_fails(script, status, said):
    done = subprocess.run(
        ["bash", *UNTIL_A_FAILURE, script], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert (done.returncode, done.stdout.split()[-1:] == [said] if said else done.stdout == "") == (status, True)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, ""),
        (1, ""),
        (None, ""),
        (126, ": a file could not be executed"),
        (127, ": a program was not found"),
        (128, ""),
        (137, ": a program in it was ended by SIGKILL, as when memory runs out"),
        (141, ": a program in it was ended by SIGPIPE, what it wrote to was closed"),
        (143, ": a program in it was ended by SIGTERM"),
        (255, ""),
    ],
)
def test_what_a_status_says(status, words):
    assert shell_words(status) == words


@pytest.mark.parametrize(
    ("script", "driver", "gets"),
    [
        ("pip install -r requirements.txt", "sandbox", True),
        ("python3 -m pip install --user -r requirements.txt", "sandbox", True),
        ("# postCreateCommand\nsh -c 'pip3 install -e .' || exit\n", "sandbox", True),
        ("pip install -r requirements.txt", "docker", False),
        ("python3 -m venv .venv\n.venv/bin/pip install -r requirements.txt", "sandbox", False),
        (". env/bin/activate; pip install x", "sandbox", False),
        ("cat pip.conf ./pip; pipeline; my-pip", "sandbox", False),
        ("npm ci", "sandbox", False),
    ],
)
def test_a_setup_in_a_sandbox_that_calls_pip_gets_an_environment_of_python(script, driver, gets):
    assert of_setup(script, capabilities.of(driver)) == (VENV if gets else "") + script

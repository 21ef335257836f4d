"""The wheel holds the client alone, needs nothing else, and runs without this checkout."""

import os
import subprocess
import sys
import zipfile

from tests.support import CHECKOUT


def test_the_wheel_is_built_and_runs_without_django_and_without_this_checkout(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=CHECKOUT / "client", check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("handrail_client-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        metadata = opened.read(next(name for name in names if name.endswith("METADATA"))).decode()
        scripts = opened.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"handrail_client"}
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert required == []
    assert "handrail = handrail_client.command_line:main" in scripts
    # From the wheel itself, with no site-packages: what is not in it is not there.
    run = [sys.executable, "-S", "-m", "handrail_client", "me"]
    done = subprocess.run(run, env={"PYTHONPATH": str(wheel), "PATH": os.environ["PATH"]}, cwd=tmp_path, text=True,
                          capture_output=True, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "handrail: Set HANDRAIL_URL and HANDRAIL_TOKEN, or HANDRAIL_CONNECTION to a file with both.\n",
    )

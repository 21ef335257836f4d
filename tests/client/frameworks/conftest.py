"""Programs that use agent frameworks, run by a Python of their own that has them: `deploy/frameworks.sh`."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import CHECKOUT

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def frameworks(require) -> str:
    """The Python that has the frameworks."""
    python = os.environ.get("HANDRAIL_TEST_FRAMEWORKS") or str(CHECKOUT / ".venv-frameworks" / "bin" / "python")
    if not Path(python).exists():
        require("frameworks", "there is no .venv-frameworks; `deploy/frameworks.sh` makes it")
    return python


@pytest.fixture
def program(frameworks, environment, tmp_path):
    """`program("langgraph_program", "start")`: one step of it, to its end, in the test's folder."""

    def run(name: str, *words: str, **more) -> subprocess.CompletedProcess:
        return subprocess.run([frameworks, str(HERE / f"{name}.py"), *words], env=environment | more, cwd=tmp_path,
                              capture_output=True, text=True, timeout=180)  # fmt: skip

    return run


@pytest.fixture
def begin(frameworks, environment, tmp_path):
    """`begin("pydantic_ai_program", "start")`: a process of its own, that goes on beside the test."""
    processes = []

    def run(name: str, *words: str, **more) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        line = [frameworks, str(HERE / f"{name}.py"), *words]
        processes.append(subprocess.Popen(line, env=environment | more, cwd=tmp_path, **pipes))
        return processes[-1]

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ran(tmp_path):
    """`ran()`: the lines that the tool has noted, sorted: two calls of one turn run beside each other."""
    return lambda: sorted((tmp_path / "ran").read_text().splitlines()) if (tmp_path / "ran").exists() else []

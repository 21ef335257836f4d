"""Pack programs that run where this project is not installed: the init of a Run, and the bridge of a guest.

A program is a zip archive that any Python from 3.9 can run or import from: with compiled modules for a Python of this
version, and with their sources for any other. It is not compressed, so that importing it does not need zlib.
"""

import io
import py_compile
import tempfile
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from workspaces.envelope import agents

INIT = Path(__file__).parent / "init"
ENVELOPE = Path(__file__).parents[1] / "envelope"


def init_modules() -> dict[str, Path]:
    """Return {name in an archive: source} of the package `init`, with the package `envelope` in it."""
    own = {f"init/{path.name}": path for path in sorted(INIT.glob("*.py")) if path.name != "__main__.py"}
    own |= {f"init/envelope/{path.name}": path for path in sorted(ENVELOPE.glob("*.py"))}
    of_agents = {agent.replace("-", "_"): Path(module.__file__) for agent, module in agents.modules().items()}
    of_agents["__init__"] = ENVELOPE / "agents" / "__init__.py"
    return own | {f"init/envelope/agents/{name}.py": path for name, path in of_agents.items()}


@lru_cache(maxsize=1)
def init_archive() -> bytes:
    """Return the init as a program for `python3 -I -S FILE`."""
    return archive(init_modules() | {"__main__.py": INIT / "__main__.py"})


def archive(modules: Mapping[str, Path]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as program, tempfile.TemporaryDirectory() as folder:
        for name, source in modules.items():
            compiled = Path(folder, "compiled")
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # an archive cannot change
            py_compile.compile(str(source), str(compiled), name, doraise=True, invalidation_mode=mode)
            _add(program, f"{name}c", compiled)
            _add(program, name, source)
    return made.getvalue()


def _add(program: zipfile.ZipFile, name: str, path: Path) -> None:
    program.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())


def write_program(path: Path, program: bytes) -> None:
    """Write a program as a file that any user may read."""
    path.unlink(missing_ok=True)
    path.write_bytes(program)
    path.chmod(0o444)

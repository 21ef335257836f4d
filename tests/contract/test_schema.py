"""schemathesis reads the OpenAPI document and tries what it allows and what not: no 5xx, nothing undocumented."""

import os
import random
import re
import subprocess
import sys
import uuid

import pytest

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = os.environ.get("HANDRAIL_TEST_EXAMPLES", "4")  # random cases for each operation
ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))

# Real things in the addresses, so that most calls go deep; and nobody waits.
CONFIG = """
[parameters]
"path.key" = "{key}"
"path.id" = "{command}"
"path.action_id" = "{action}"
"path.n" = "1"
"query.wait" = 0
"query.follow" = false
"""


def half_of_the_paths(product) -> str:
    """Return a pattern of half of the API's paths, by chance: each has some twenty calls made from the schema."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    paths = sorted(product.get("/api/v1/openapi.json").json["paths"])
    chosen = random.Random(seed).sample(paths, len(paths) // 2)
    return f"^({'|'.join(re.escape(path) for path in chosen)})$"


@pytest.mark.timeout(600)  # every operation in turn, against the real product
# The cases made from the schema take minutes, so an agent sends them; a reviewer, whose calls go deeper, random ones.
@pytest.mark.parametrize(("who", "phases"), [("agent", "examples,coverage"), ("reviewer", "examples,fuzzing")])
def test_no_answer_is_a_surprise(everybody, tmp_path, who, phases):
    agent, caller = everybody["strangers agent"], everybody[f"strangers {who}"]
    key = agent.workspace()
    command = agent.post(f"/workspaces/{key}/commands", {"command": "true"}, 201).json["id"]
    push = {"tool": "Bash", "arguments": {"command": f"git push origin {uuid.uuid4().hex}"}}
    action = agent.post("/actions", push, 201).json["id"]
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(key=key, command=command, action=action))
    chosen = ["--include-path-regex", half_of_the_paths(agent.product)] if "coverage" in phases and ROUNDS < 10 else []
    done = subprocess.run(
        [
            os.path.join(os.path.dirname(sys.executable), "schemathesis"),
            *("--config-file", str(config), "run", f"{agent.product.url}/api/v1/openapi.json"),
            *("-H", f"Authorization: Bearer {caller.token}"),
            *("--phases", phases, "--checks", CHECKS, *chosen),
            *("--exclude-method", "DELETE", "--max-examples", EXAMPLES, "--seed", "1"),
            # Longer than any call waits for the moves that the calls before it asked for.
            *("--continue-on-failure", "--no-shrink", "--request-timeout", "150", "--warnings", "off"),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

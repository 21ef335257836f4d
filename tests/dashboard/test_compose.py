"""The desk of deploy/compose: its files can be read, and name what is there."""

import re

import pytest
import yaml

from tests.support import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "compose"


@pytest.fixture(scope="module")
def compose() -> dict:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


def test_two_webs_a_balancer_a_database_and_a_bucket(compose):
    assert list(compose["services"]) == ["web-a", "web-b", "nginx", "postgres", "seaweedfs"]
    assert compose["services"]["web-a"]["build"] == compose["services"]["web-b"]["build"]


def test_nginx_sends_to_both_webs(compose):
    upstream = re.search(r"upstream handrail \{(.*?)\}", (FOLDER / "nginx.conf").read_text(), re.DOTALL).group(1)
    webs = [name for name in compose["services"] if name.startswith("web-")]
    assert re.findall(r"server (\S+):8000", upstream) == webs


def test_files_and_volumes_that_are_named_exist(compose):
    mounted = [volume.split(":")[0] for each in compose["services"].values() for volume in each.get("volumes", [])]
    files = [name for name in mounted if name.startswith("./")]
    assert [name for name in files if not (FOLDER / name).exists()] == []
    assert sorted(set(mounted) - set(files)) == sorted(compose["volumes"])
    build = compose["services"]["web-a"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).exists()


def test_variables_are_in_the_example_and_known_to_the_settings(compose):
    example = set(re.findall(r"^([A-Z_]+)=", (FOLDER / "example.env").read_text(), re.MULTILINE))
    assert set(re.findall(r"\$\{([A-Z_]+)", (FOLDER / "compose.yaml").read_text())) == example
    known = (CHECKOUT / "docs" / "settings.md").read_text()
    ours = {name for web in ("web-a", "web-b") for name in compose["services"][web]["environment"]}
    assert [name for name in sorted(ours) if not name.startswith("AWS_") and f"`{name}`" not in known] == []

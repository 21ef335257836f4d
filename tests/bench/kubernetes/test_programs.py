"""What is built is kept by its version and recipe, and what a machine lacks is said in one line."""

from dataclasses import replace

import pytest

from bench.kubernetes import __main__ as command
from bench.kubernetes import programs
from tests.support import kubernetes


@pytest.fixture
def no_go(monkeypatch, tmp_path):
    monkeypatch.setenv("HANDRAIL_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_without_go_a_build_says_so_and_leaves_nothing(no_go, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench.kubernetes", "build"])
    assert command.main() == 1
    assert capsys.readouterr().err == "there is no Go\n"
    assert {path.name for path in (no_go / "cache" / "kubernetes").iterdir()} == {"lock"}


def test_without_go_the_tests_on_a_cluster_are_skipped_with_one_line(no_go):
    assert (
        kubernetes.lacks()
        == f"the programs of Kubernetes are not built (kubernetes {programs.KUBERNETES}): there is no Go"
    )


def test_without_go_a_command_that_needs_a_cluster_is_left_out_with_one_line(no_go, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench.kubernetes", "run", "touch", str(no_go / "ran"), "-m", "kubernetes"])
    assert command.main() == 0
    assert capsys.readouterr().err == "Left out, since there is no Kubernetes here: there is no Go.\n"
    assert not (no_go / "ran").exists()


def test_an_older_go_is_refused(no_go, monkeypatch):
    (no_go / "go").write_text("#!/bin/sh\necho go1.19.8\n")
    (no_go / "go").chmod(0o755)
    assert programs.lacks() == "Go 1.19.8 is older than 1.26"


def test_another_version_is_built_beside_and_takes_the_rest_as_it_is():
    ours = {recipe.name: recipe.folder for recipe in programs.recipes()}
    newer = {recipe.name: recipe.folder for recipe in programs.recipes(programs.NEWER)}
    assert {name for name, folder in ours.items() if newer[name] != folder} == {"kubernetes"}


def test_a_changed_recipe_is_built_anew():
    recipe = programs.recipes()[0]
    assert replace(recipe, tags="other").folder != recipe.folder
    assert replace(recipe).folder == recipe.folder


def test_a_patch_that_no_longer_fits_ends_the_build(tmp_path):
    gvisor = next(recipe for recipe in programs.recipes() if recipe.patched)
    file = tmp_path / "vendor" / gvisor.patched
    file.parent.mkdir(parents=True)
    file.write_text("package sys\n")
    with pytest.raises(programs.CannotBuild, match="has changed"):
        programs._patch(tmp_path, gvisor)
    assert file.read_text() == "package sys\n"

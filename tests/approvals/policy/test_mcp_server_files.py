"""The files of the MCP servers: every field is known, and each argument that a title uses is in the recorded schema."""

import re

import pytest

from approvals.policy import mcp_servers, title_words

NAMES = mcp_servers.all_names()


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_whole_and_names_its_sources(name):
    about = mcp_servers.load(name)
    assert all((about.name, about.aliases, about.packages, about.tools))
    assert all(re.search(r"\d", source) for source in about.made_from), "a source without its version"


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_has_words_an_effect_and_an_undo_that_fit(name):
    for tool, about in mcp_servers.load(name).tools.items():
        assert all(verb in title_words.DEEDS for verb, _thing in about.all_deeds()), tool
        assert about.effect in mcp_servers.EFFECTS, tool
        assert about.undo in mcp_servers.UNDO, tool
        assert (about.undo == "yes") is (about.effect == "read"), tool
        assert about.unit in ("major", "minor"), tool


@pytest.mark.parametrize("name", NAMES)
def test_each_argument_of_a_title_is_in_the_schema(name):
    for tool, about in mcp_servers.load(name).tools.items():
        used = [key for each in (about.number, about.place, about.to, about.on) for keys in each for key in keys]
        used += [*about.label, *about.detail, *about.statement, *about.deeds]
        used += filter(None, (about.count, about.amount, about.currency))
        assert {key.partition(".")[0] for key in used} <= about.arguments, tool
        assert about.required <= about.arguments


def test_the_index_of_names_has_what_the_files_have():
    tools = {(tool, name) for name in NAMES for tool in mcp_servers.load(name).tools}
    assert {(tool, name) for tool, names in mcp_servers._index().items() for name in names} == tools


def test_forty_servers_are_known():
    assert len(NAMES) >= 40

"""Two different names never become one where a name says who or what is meant.

`MAPPINGS` has each function that makes a name of another. `SHORTENED` has each place in the code that drops a part of
a text in one of the usual ways, with the reason why nothing is mistaken for something else by it: a new place has to
be added, or to keep the whole name.
"""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.agents.lines import Line
from approvals.policy.mcp import other_server
from dashboard.models import Agent
from dashboard.text.bounded_names import bounded
from handrail_client.actions import bounded as bounded_by_the_client
from tests.pages.conftest import make_workspace
from tests.support import CHECKOUT
from workspaces import code_hosts
from workspaces.drivers.kubernetes import pods
from workspaces.drivers.sandbox import driver as sandbox
from workspaces.egress.names import BadName, host_name
from workspaces.host import paths
from workspaces.lifecycle import creation
from workspaces.models import Environment
from workspaces.pages import diff_sections
from workspaces.runner.code_host import copies
from workspaces.services import run_tokens

TWINS = "aA-_./: %…"  # letters that a mapping is likely to make one
LONG = st.builds(
    lambda text, count: "x" * count + text, st.text(TWINS, max_size=6), st.sampled_from([0, 190, 198, 400])
)
NAMES = st.one_of(st.text(TWINS, max_size=6), LONG)
MADE = bounded("x" * 400, 200)  # what stands for a long name, as a name of its own


def _host(text):
    """Return the one form of a host's name; another form of it is the same host."""
    try:
        return host_name(text)
    except BadName:
        return None


MAPPINGS = {
    "an id in a row": lambda name: bounded(name, 200),
    "an id that a client sends": bounded_by_the_client,
    "the key of a call": lambda name: Line("assistant", "call", call_id=name).key if name else name,
    "the key of a result": lambda name: Line("tool", "result", call_id=name).key if name else name,
    "the key of a message": lambda name: Line("user", "text", native_id=name).key or name,
    "an agent's program on a stage": sandbox._staged,
    "the pod of a Run": pods.fitting,
    "a file's section in Changes": lambda name: diff_sections.anchor_of(name.encode()),
    "an environment of a setup": lambda name: creation._whole_name_of({"driver": "docker", "setup": name, "image": ""}),
    "an environment of an image": lambda name: creation._whole_name_of(
        {"driver": "docker", "setup": "", "image": name}
    ),
}


@pytest.mark.parametrize("what", MAPPINGS)
@given(NAMES, NAMES)
def test_two_names_stay_two(what, one, other):
    made = MAPPINGS[what]
    assert (made(one) == made(other)) == (one == other)


@pytest.mark.parametrize("what", ["an id in a row", "the key of a call", "the key of a message"])
def test_what_stands_for_a_long_name_is_not_taken_for_a_name(what):
    made = MAPPINGS[what]
    assert made("x" * 400) != made(MADE)
    assert max(len(made("x" * 400)), len(made(MADE))) <= 200


@given(st.text("aA-_.0", max_size=8), st.text("aA-_.0", max_size=8))
def test_a_host_has_one_form_that_no_other_host_has(one, other):
    """Case and one trailing dot make no other host (RFC 1035); everything else does."""
    same = one.lower().removesuffix(".") == other.lower().removesuffix(".")
    assert _host(one) is None or (_host(one) == _host(other)) == same


def test_a_copy_at_the_code_host_is_of_one_address(settings, tmp_path):
    settings.HANDRAIL_HOME = tmp_path
    urls = [f"https://git.example.org/{name}" for name in ("a/b", "A/b", "a-b", "a_b", "a/b.git", "a/b/")]
    assert len({copies.copy_of("w", url) for url in urls}) == len(urls)


@pytest.mark.django_db
def test_an_environment_is_only_found_by_the_setup_that_it_has(team, agent, monkeypatch):
    """The short name has 40 bits: setups of one such name can be found in seconds."""
    monkeypatch.setattr(creation, "_name_of", lambda driver, setup, image: "sandbox-0123456789")
    caller = SimpleNamespace(agent=agent, user=None)
    setups = ["true", "curl -s https://example.org/x", "true "]
    found = [creation._environment(team, {"setup": setup}, caller) for setup in setups]
    assert [each.setup for each in found] == setups
    assert [creation._environment(team, {"setup": setup}, caller).pk for setup in setups] == [each.pk for each in found]
    assert found[0].name == "sandbox-0123456789"
    Environment.objects.filter(name__startswith="sandbox-").update(setup="something else")
    with pytest.raises(Exception, match="are taken"):
        creation._environment(team, {"setup": setups[1]}, caller)


@pytest.mark.django_db
def test_an_agent_is_made_for_one_workspace_whatever_the_names_of_others(team, agent):
    made = []
    for number in range(4):
        workspace = make_workspace(team, agent, "shop" if number == 0 else f"shop{number}")
        workspace.key = "shop"
        made.append(run_tokens._agent_named_for(workspace))
    assert len({each.pk for each in made}) == len({each.name for each in made}) == 4
    longest = SimpleNamespace(team=team, key="k" * 64)
    names = [run_tokens._agent_named_for(longest).name for _ in range(2)]
    assert all(len(name) <= Agent._meta.get_field("name").max_length for name in names)


@pytest.mark.django_db
def test_what_a_workspace_has_on_the_host_is_named_by_its_id(team, agent):
    """Its folders: keys such as `a.b` and `a-b` are in none of them."""
    one, other = (make_workspace(team, agent, key) for key in ("a.b", "a-b"))
    for of in (lambda w: paths.folder_of(w.pk), paths.tree_of, paths.bundle_of, lambda w: paths.checkpoints_of(w.pk)):
        assert of(one) != of(other)


@pytest.mark.django_db
@given(data=st.data())
def test_a_token_without_an_origin_is_not_found_by_a_host_that_shares_its_name(data):
    host = st.lists(st.sampled_from(["git", "my", "hub", "-", ".", "com"]), min_size=1, max_size=6).map("".join)
    one, other = (code_hosts.repository_of(f"https://{data.draw(host)}/a/b") for _ in range(2))
    if one.token_name == other.token_name and one.base != other.base:
        assert not (code_hosts.is_named_alone(one) and code_hosts.is_named_alone(other))


def test_people_stay_two_for_frameworks():
    presenter = pytest.importorskip("handrail_client.aais.presenter")
    names = ["Ann Lee", "Ann-Lee", "Ann_Lee", "Änn Lee", "x" * 300, "x" * 301]
    made = [presenter._id_of(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._:-]{1,200}", each) for each in made)


# Where the code drops a part of a text --------------------------------------------------------------------------------

ONLY_SHOWN = "shown to people or programs, never compared"
REFUSES = "two names that become one are both refused"
SHORTENED = {
    "approvals/agent_runs/code_host/commands.py": "the words of a command",
    "approvals/agent_runs/requests.py": "a new workspace's key, with random letters; one that exists is refused",
    "approvals/api/conversations.py": "the name of a download",
    "approvals/agents/claude_code/transcript.py": "Claude Code's own name of a folder; each file names all of it",
    "approvals/agents/codex/transcript.py": "128 bits",
    "approvals/notify/log_targets/sending.py": ONLY_SHOWN,
    "approvals/pages/conversations.py": "the name of a download",
    "approvals/pages/alike_groups.py": "names a row of one list, whose members are read from the list again",
    "approvals/pages/list_filters.py": "only which rows a search shows",
    "approvals/policy/amounts.py": "the words of a title, which says where they are not what was written",
    "approvals/policy/field_names.py": "the words of titles; they allow nothing",
    "approvals/policy/mcp_servers/__init__.py": "the words of titles; an undo takes the program that was started",
    "approvals/policy/globs.py": "only for rules that restrict, and for file systems without case",
    "approvals/policy/mcp.py": "only for rules that restrict; a rule that allows names the server exactly",
    "approvals/policy/paths.py": "only to find more protected paths",
    "approvals/protocols/e2b/sandboxes.py": "64 bits of a digest of token and request; the token finds its own alone",
    "client/handrail_client/aais/presenter.py": "a digest of the whole name follows",
    "client/handrail_client/mcp/identity.py": "the letters of tools' names; a digest says which server it is",
    "client/handrail_client/mcp/messages.py": "only to find more methods that are asked about",
    "dashboard/net/outbound.py": "the name of a file, made of 64 bits of its content",
    "dashboard/problems.py": "a code made of what Handrail itself calls a thing",
    "dashboard/settings.py": "of an installation on this host, from its own path",
    "dashboard/site/context.py": "of one's own session",
    "dashboard/site/invitations.py": REFUSES,
    "dashboard/people/tokens.py": "288 bits",
    "workspaces/code_hosts/base.py": "a secret's name, whose origin decides; branches that become one are refused",
    "workspaces/code_hosts/github_threads.py": "labels, which the code host compares without case",
    "workspaces/code_hosts/gitlab_threads.py": "labels, which the code host compares without case",
    "workspaces/egress/reads.py": "128 bits",
    "workspaces/changes/diff/readable.py": "128 bits",
    "workspaces/drivers/docker/bundle.py": "of Handrail's own files",
    "workspaces/drivers/docker/engine.py": "128 bits",
    "workspaces/drivers/microvm/driver.py": "the host name inside, and 128 bits",
    "workspaces/drivers/microvm/templates.py": "of an installation on this host, from its own path",
    "workspaces/drivers/kubernetes/claims.py": "32 bits of a hash of the host; labels tell hosts apart",
    "workspaces/drivers/kubernetes/driver.py": "64 bits of a hash",
    "workspaces/drivers/kubernetes/namespaces.py": "32 bits of a hash; labels with the whole slug tell teams apart",
    "workspaces/drivers/kubernetes/pods.py": "names of pods, with a hash of the whole name of the Run",
    "workspaces/drivers/kubernetes/warm_pools.py": "32 bits of hashes of the host and of a new certificate",
    "workspaces/drivers/sandbox/driver.py": "the host name inside",
    "workspaces/lifecycle/creation.py": "an environment is used only if its content is what was asked for",
    "workspaces/pages/diff_sections.py": "128 bits",
    "workspaces/pages/header_notices.py": "a key that is proposed for a fork; one that exists is refused",
    "workspaces/provisioning/git_identity.py": "the address of commits' author, which nobody is known by",
    "workspaces/provisioning/uploads.py": "whose uploads count together; the file's own id is random",
    "workspaces/runner/mcp_servers.py": "Claude Code's own name; each entry of it must be trusted",
    "workspaces/runner/rootfs.py": "160 bits",
    "workspaces/services/folders.py": "a new workspace's key; one that is taken gets a number",
    "workspaces/services/retention/confirming.py": "128 bits",
    "workspaces/store/unpack.py": REFUSES,
    "workspaces/secrets/team_credentials.py": "a proposed name of a secret, whose origin decides",
}  # fmt: skip


def _drops(node) -> bool:
    """Return whether a node cuts a digest or an id, or replaces or folds letters."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        cut = node.value
        if isinstance(cut, ast.Call):
            return getattr(cut.func, "attr", "") in ("hexdigest", "digest")
        named = getattr(cut, "attr", getattr(cut, "id", ""))
        return node.slice.upper is not None and (named.endswith("_id") or named in ("session", "native", "slug"))
    if not isinstance(node, ast.Call):
        return False
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    pattern = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
    return called in ("slugify", "casefold") or (called == "sub" and str(pattern).startswith("[^"))


def test_each_place_that_drops_a_part_of_a_name_is_listed():
    found = set()
    for folder in ("approvals", "workspaces", "dashboard", "client"):
        for path in Path(CHECKOUT, folder).rglob("*.py"):
            if "migrations" not in path.parts and any(map(_drops, ast.walk(ast.parse(path.read_text("utf-8"))))):
                found.add(str(path.relative_to(CHECKOUT)))
    assert found == set(SHORTENED)


def test_two_entries_of_one_name_are_both_asked_about():
    trusted = [SimpleNamespace(name="my_git", runs="a", sha256="1")]
    entry = {"name": "my_git", "origin": "user", "runs": "a", "sha256": "1"}
    assert other_server("my_git", [entry], trusted) is None
    assert "not the one that the policy trusts" in other_server("my_git", [entry, entry | {"sha256": "2"}], trusted)

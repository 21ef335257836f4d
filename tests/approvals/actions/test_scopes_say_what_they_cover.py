"""What a grant or a rule says that it covers is what it covers, for each pair of generated calls.

Of each call a card is made. What the card offers is tried on every other call: one that is covered differs from the
card's only in what the text names as varying, and in nothing that the text names as fixed.
"""

import itertools
import json
import posixpath
import re

import pytest

from approvals.actions import grant_scopes, grants
from approvals.actions.grant_scopes import FOLDER, HOST, PROGRAM, TREE
from approvals.evaluation import policies
from approvals.evaluation.judge import content
from approvals.policy import Policy, classify, load_policy
from approvals.reports.policy_changes import proposals

pytestmark = pytest.mark.django_db

# Per program its targets, which a text names, and its options, which it says may vary.
PROGRAMS = {
    "npm install": (["", "lodash", "left-pad", "lodash left-pad", "./own"], ["", "--save-dev", "-g", "--registry=h"]),
    "cargo install": (["", "ripgrep", "fd-find"], ["", "--locked", "--root /opt", "--path own"]),
    "pip install": (["", "flask", "requests", "flask requests", "."], ["", "-U", "-r a.txt", "--index-url=h"]),
    "git push": (["", "origin", "origin a", "origin b", "backup a", "origin a:main"], ["", "-u", "--force", "--tags"]),
    "kubectl delete": (["pod a", "pod b", "service a"], ["", "-n prod", "--all"]),
    "docker rm": (["", "a", "b", "a b"], ["", "-f", "-v"]),
    "gh release": (["create v1", "create v2", "delete v1"], ["", "--draft"]),
}
AROUND = ["{}", "{} && ls", "ls; {}", "{} > out.txt", "NODE_ENV=test {}"]
HOSTS = ["https://a.example/x", "https://a.example/y?q=1", "http://a.example/x", "https://b.a.example/x"]
HOSTS += ["https://a.example:8443/x", "https://a.example@b.example/x", "https://b.example/x"]
FETCHES = ["curl -s {}", "curl -s -d @a.txt {}", "curl -s -X DELETE {}", "curl -so a.txt {}"]
FILES = ["src/a.py", "src/sub/b.py", "docs/c.md", "d.txt", "src/.env", "src/.git/hooks/x", "src/../docs/c.md"]
PATCH = "*** Begin Patch\n{}\n*** End Patch"


def commands(name):
    for target, option in itertools.product(*PROGRAMS[name]):
        command = " ".join(filter(None, (name, target, option)))
        yield from (around.format(command) for around in (AROUND if not option else AROUND[:1]))


def edits():
    for path in FILES:
        yield "Write", {"file_path": path, "content": "x"}
        yield "Edit", {"file_path": path, "old_string": "a", "new_string": "b"}
        for text in (f"*** Add File: {path}\n+x", f"*** Delete File: {path}"):
            yield "apply_patch", {"command": PATCH.format(text)}


@pytest.fixture
def cards(ask, workspace, settings):
    """`cards([(tool, arguments), …])`: an action of each call, as nothing but the policy judges it."""
    settings.HANDRAIL_PENDING_LIMIT = settings.HANDRAIL_AGENT_PENDING_LIMIT = 10_000

    def make(calls):
        return [ask(arguments, tool=tool, workspace=workspace) for tool, arguments in calls]

    return make


def covered(actions, names):
    """Yield (card, scope that it offers, arguments of another call that the scope covers)."""
    for card in actions:
        for scope in grant_scopes.of_action(card):
            if scope.name in names:
                yield from ((card, scope, other) for other in actions if grants._would_cover(scope, other))


def arguments(action):
    return content(action)["arguments"]


def targets_in(command, name):
    """Return the words of a command that are targets of its program."""
    known = {word for target in PROGRAMS[name][0] for word in target.split()}
    return known & set(command.split())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_grant_for_a_program_covers_its_targets_and_no_other_command(cards, name):
    found = list(covered(cards([("Bash", {"command": text}) for text in commands(name)]), [PROGRAM]))
    assert found or name in ("kubectl delete", "gh release")  # which offer none
    for card, scope, other in found:
        asked, later = arguments(card)["command"], arguments(other)["command"]
        assert f"{name} in repo-1, whatever its options" == scope.label
        assert "no other command in the same line" in scope.never
        assert later.removeprefix("NODE_ENV=test ").startswith(name)  # a variable that counts as an option
        assert not {"&&", ";", ">"} & set(later.split())
        named = scope.never.partition("Nothing but ")[2].partition(";")[0]
        if named:
            assert targets_in(later, name) <= targets_in(asked, name), (asked, later)
            assert targets_in(later, name), (asked, later)
        else:
            assert targets_in(later, name) == targets_in(asked, name), (asked, later)


def test_a_grant_for_a_host_covers_pages_of_that_host_alone(cards):
    calls = [("WebFetch", {"url": url, "prompt": "x"}) for url in HOSTS]
    calls += [("Bash", {"command": fetch.format(url)}) for fetch in FETCHES for url in HOSTS]
    found = list(covered(cards(calls), [HOST]))
    assert found
    for card, scope, other in found:
        host = scope.label.removeprefix("Fetching pages of ")
        text = " ".join(map(str, arguments(other).values()))
        assert re.search(rf"https?://{re.escape(host)}/", text), (arguments(card), text)
        assert ("-d " in text, "-X " in text) == (False, False)


def test_a_grant_for_edits_covers_edits_of_files_under_its_folder(cards, team, lena, person):
    policies.save('mode = "everything"\n', caller=person(lena), team=team)
    found = list(covered(cards(edits()), [FOLDER, TREE]))
    assert found
    for card, scope, other in found:
        assert "Editing and creating files" in scope.label
        folder = re.search(r"under /(\S+),", scope.label)
        paths = re.findall(r"(?:File: )?([\w./]+\.\w+)", str(arguments(other)))
        assert all(posixpath.normpath(path).startswith(f"{folder[1]}/") for path in paths if folder), (scope, other)
        assert "Delete File" not in str(arguments(other)), (arguments(card), arguments(other))
        assert not re.search(r"\.env|\.git", str(arguments(other)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rule_for_a_program_says_what_varies_under_it(cards, name):
    texts = list(commands(name))
    for card in cards([("Bash", {"command": text}) for text in texts]):
        for each in proposals.of_action(card).get("low", []):
            policy = load_policy(f'mode = "irreversible"\nlow = [{json.dumps(each.rule)}]\n')
            let_run = [text for text in texts if classify("Bash", {"command": text}, policy=policy).rule == each.rule]
            assert f"“{name}”" in each.covers
            assert "any targets and any options known to be harmless" in each.covers
            assert "a part of a longer one" in each.covers or not any("&&" in text or ";" in text for text in let_run)
            assert not any(">" in text.split() for text in let_run)
            assert "Nothing but" not in each.covers + each.never


def test_a_rule_for_edits_says_that_a_patch_may_delete(cards, team, lena, person):
    policies.save('mode = "everything"\n', caller=person(lena), team=team)
    calls = list(edits())
    for card in cards(calls):
        for each in proposals.of_action(card).get("low", []):
            policy = Policy.of_rules([each.rule])
            let_run = [args for tool, args in calls if classify(tool, args, policy=policy).tier == "low"]
            deletes = any("Delete File" in str(args) for args in let_run)
            assert "deleting" in each.covers or not deletes
            assert not any(".env" in str(args) or ".git" in str(args) for args in let_run)


RESTRICTED = ["git push origin a", "npm install lodash", "kubectl delete pod a"]


@pytest.mark.parametrize("command", RESTRICTED)
def test_a_rule_that_asks_or_forbids_says_how_far_it_reaches(cards, command):
    [card] = cards([("Bash", {"command": command})])
    behind = [f"sudo {command}", f"bash -c '{command}'", f"find . -exec {command} \\;"]
    for each in proposals.of_action(card)["high"]:
        policy = load_policy(f'mode = "irreversible"\nforbidden = [{json.dumps(each.rule)}]\n')

        def meets(text, policy=policy):
            return classify("Bash", {"command": text}, policy=policy).tier == "forbidden"

        assert all(map(meets, [command, *behind]))
        assert "also behind sudo, bash -c and find -exec" in each.covers
        assert meets(f"{command} more") == ("starts with" in each.covers)
        assert ("no others" in each.covers) == (not meets(f"{command} more"))


def test_a_rule_that_asks_for_a_host_says_that_it_reaches_hosts_below_it(cards):
    [card] = cards([("WebFetch", {"url": "https://a.example/x", "prompt": "x"})])
    [proposal] = proposals.of_action(card)["high"]
    policy = load_policy(f'mode = "irreversible"\nforbidden = [{json.dumps(proposal.rule)}]\n')
    hosts = ["a.example", "b.a.example", "example", "ba.example"]
    met = [host for host in hosts if classify("WebFetch", {"url": f"https://{host}/"}, policy=policy).rule]
    assert met == ["a.example", "b.a.example"]
    assert proposal.covers == "Pages of a.example and of hosts below it"

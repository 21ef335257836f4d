"""What clients and package managers do on this machine runs where the kernel holds the call, and nothing beyond it."""

import json
from pathlib import Path

import pytest

from approvals.policy import classify, default_policy, load_policy

HERE = Path(__file__).parent
# Ordinary calls of agents in many languages: `expected` is what somebody would say who knows only the call.
ORDINARY = [json.loads(line) for line in (HERE / "ordinary_calls.jsonl").read_text().splitlines()]
ATTACKS = [json.loads(line)["command"] for line in (HERE / "held_attacks.jsonl").read_text().splitlines()]
POLICY = load_policy(default_policy())
ALLOWED = ("low", "medium")


def tier(command, **context):
    return classify("Bash", {"command": command}, policy=POLICY, context=context).tier


def test_of_ordinary_calls_fewer_than_one_in_twenty_asks_in_vain():
    expected = [row["command"] for row in ORDINARY if row["expected"] == "run"]
    asked = [command for command in expected if tier(command, held=True) not in ALLOWED]
    assert len(expected) > 380
    assert len(asked) / len(expected) < 0.05


def test_no_attack_beside_a_widened_form_runs():
    assert len(ATTACKS) > 250
    assert [command for command in ATTACKS if tier(command, held=True) in ALLOWED] == []


@pytest.mark.parametrize(
    "command",
    [
        "terraform validate",
        "terraform fmt -check -recursive",
        "helm template shop charts/shop -f values-dev.yaml",
        "kubectl create deployment x --image=y --dry-run=client -o yaml",
        "ansible-playbook --syntax-check site.yml",
        "vercel --help",
        "kubectl get --help",
        "openssl x509 -in certs/dev.crt -noout -text",
        "composer dump-autoload",
        "composer test",
        "uv lock --check",
        "npm ci --offline",
        "ls -la .env*",
        "stat .env",
        "git ls-files .env",
        "git log --oneline -- .env",
        "rsync -a src/ /tmp/copy/",
        "find . -name __pycache__ -exec rm -rf {} +",
        "printenv PATH",
        "go list -m all",
    ],
)
def test_a_form_that_works_on_this_machine_runs_only_where_it_is_held(command):
    assert tier(command, held=True) == "medium"
    assert tier(command) == "high"


@pytest.mark.parametrize(
    "command",
    [
        "git rm --cached .env",
        "git archive --format=tar HEAD | tar -t",
        "sed -i '' '/^import old/d' src/a.ts",
        "python -m http.server & PID=$!; sleep 1; kill -9 $PID",
        "npm start & SERVER=$!; npm run e2e; kill $SERVER",
        "bun run scripts/seed.ts",
        "make -n deploy",
        "docker compose config --services",
        "npx --yes commitlint --from $(git merge-base origin/main HEAD)",
    ],
)
def test_what_was_taken_for_something_else_runs(command):
    assert tier(command, held=True) in ALLOWED


def test_a_form_that_asks_says_where_it_works():
    verdict = classify("Bash", {"command": "terraform validate"}, policy=POLICY)
    assert verdict.reasons == ["Needs approval: runs terraform validate, which works on this machine."]
    assert verdict.title == "Run terraform validate"

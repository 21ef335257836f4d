"""What publishes or deploys asks by whatever name it is called, in each mode, held or not."""

import pytest

from approvals.policy import classify, default_policy, load_policy

STARTED = [
    "./{}.sh staging",
    "bash {}.sh",
    "sh -x ./scripts/{}.sh",
    "source {}.sh",
    "sudo bash {}.sh",
    "env A=1 ./{}.sh",
]
STARTED += [
    "timeout 60 bash {}.sh",
    "make {}",
    "npm run {}",
    "yarn {}:prod",
    "pnpm run {}",
    "just {}",
    "task {}",
    "rake {}",
]
STARTED += [
    "python {}.py",
    "python3 -m tools.{}",
    "node scripts/{}.js",
    "ruby {}.rb",
    "php {}.php",
    "./bin/{}",
    "bin/dev {}",
]
STARTED += [
    "python manage.py {}",
    "bundle exec cap production {}",
    "invoke {}",
    "nox -s {}",
    "gradle {}",
    "./gradlew {}",
]
STARTED += ["cargo xtask {}", "cargo run --bin {}", "uv run {}.py", "poetry run {}", "deno task {}", "serverless {}"]
DEEDS = ["deploy", "publish", "release"]
CALM = """
pytest tests/test_deploy.py; cat deploy.sh; bash -n deploy.sh; git commit -m deploy; ruff check deploy.py; make test
npm test -- deploy; npm run build; python manage.py test deploy; ./gradlew test; cargo build --release
shellcheck deploy.sh
""".replace("\n", ";")
CALM = [command.strip() for command in CALM.split(";") if command.strip()]


def tiers(command):
    modes = [load_policy(f'mode = "{mode}"') for mode in ("irreversible", "commands", "everything")]
    contexts = ({}, {"held": True})
    call = {"command": command}
    return {classify("Bash", call, policy=policy, context=context).tier for policy in modes for context in contexts}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("command", STARTED)
def test_a_name_that_says_so_asks(command, deed):
    assert tiers(command.format(deed)) == {"high"}


@pytest.mark.parametrize("command", CALM)
def test_a_file_that_is_only_read_or_tested_does_not(command):
    policy = load_policy(default_policy())
    for context in ({}, {"held": True}):
        assert classify("Bash", {"command": command}, policy=policy, context=context).tier in ("low", "medium")

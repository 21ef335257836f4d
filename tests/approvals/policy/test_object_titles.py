"""Headlines name the object, where it is and production, however the statements come in."""

import pytest

from approvals.policy import classify, default_policy, load_policy

POLICY = load_policy(default_policy())
TEXTS = {"scripts": {"m.sql": "DROP TABLE users;\n"}}
WAYS = [
    "psql -c 'DROP TABLE users'",
    "psql <<SQL\nDROP TABLE users;\nSQL",
    "psql <<< 'DROP TABLE users'",
    "psql -f m.sql",
]
WAYS += ["echo 'DROP TABLE users' | psql", "printf 'drop table users;\\n' | psql", "psql < m.sql", "cat m.sql | psql"]
WAYS += ["cat <<SQL | psql\nDROP TABLE users;\nSQL", "psql --file=m.sql", "psql --command='DROP TABLE users'"]


def judge(command):
    return classify("Bash", {"command": command}, policy=POLICY, context=TEXTS)


@pytest.mark.parametrize("command", WAYS)
def test_statements_are_told_and_counted_as_a_loss_however_they_come_in(command):
    verdict = judge(command)
    assert verdict.title == "Drop table users (psql)"
    assert [entry for entry in verdict.commands if entry.get("loses")] == [verdict.commands[-1]]


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("psql -c 'TRUNCATE TABLE sessions, audit_events CASCADE'",
         "Empty tables sessions, audit_events, with all that depends on it (CASCADE) (psql)"),
        ("psql -c 'DELETE FROM a; DROP TABLE b, c'", "Drop tables b, c, delete all rows in a (psql)"),
        ("kubectl --context prod scale deployment/checkout --replicas=0",
         "Run kubectl scale deployment/checkout, context prod, replicas 0 in production (remote)"),
        ("kubectl delete ns prod", "Run kubectl delete ns prod in production (remote)"),
        ("kubectl delete pod web-1 -n shop", "Run kubectl delete pod web-1, namespace shop (remote)"),
        ("aws s3 rm s3://prod-assets/ --recursive", "Run aws s3 rm s3://prod-assets/ in production (remote)"),
        ("helm uninstall shop -n prod", "Run helm uninstall shop, namespace prod in production (remote)"),
        ("gcloud sql instances delete main --project live",
         "Run gcloud sql instances delete main, project live in production (remote)"),
    ],
)  # fmt: skip
def test_a_headline_names_each_object_its_place_and_production(command, title):
    assert judge(command).title == title

"""Headlines hold the acting words of every program, known or not, and clients of services weigh as their brothers."""

import pytest

from approvals.policy import classify, default_policy, load_policy

POLICY = load_policy(default_policy())
CONTEXT = {"scripts": {"drop.sql": "DROP TABLE users;\n"}, "secrets": ["config/server.key"]}


def judge(command, **more):
    return classify("Bash", {"command": command}, policy=POLICY, context=CONTEXT | more)


# Programs that no table knows and those that one does: each word here has to stand in the headline.
ACTING = [
    ("{} databases destroy main --env production", ["databases destroy main", "in production"]),
    ("{} delete thing --project prod > log", ["delete thing", "project prod", "in production"]),
    ("{} --region eu purge:all tenant-7 --yes", ["purge:all", "tenant-7", "region eu"]),
    ("sudo {} wipe cache-1", ["wipe cache-1"]),
    ("env A=1 {} drop_index orders", ["drop_index orders"]),
    ("cd x && true && {} --delete --topic orders", ["--delete", "orders"]),
]
PROGRAMS = ["acme-cli", "heroku", "fly", "pulumi", "stripe", "rabbitmqctl", "kafka-topics", "bq", "aws", "docker"]
PROGRAMS += ["kubectl", "gcloud", "vault", "supabase", "./bin/tool", "bin/tool", "alembic"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("command", "words"), ACTING)
def test_no_headline_loses_the_acting_words(program, command, words):
    title = judge(command.format(program)).title
    assert [word for word in words if word not in title] == []


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("heroku pg:reset DATABASE --app prod", "Run heroku pg:reset DATABASE, app prod in production (remote)"),
        ("stripe refunds create --charge ch_1 --amount 500",
         "Run stripe refunds create, amount 500, charge ch_1 (remote)"),
        ("dropdb production", "Run dropdb production in production"),
        ("docker rm -f web", "Run docker rm web"),
        ("docker system prune -af --volumes", "Run docker system prune --volumes -af"),
        ("docker exec db psql -c 'drop table users'", "Drop table users (docker exec db psql)"),
        ("kubectl exec -n prod pod-1 -- rm -rf /data",
         "Run kubectl exec pod-1, namespace prod -- rm -rf /data in production (remote)"),
        ("ssh prod-1 'rm -rf /srv/data'", "Run rm -rf /srv/data on prod-1 (ssh) in production"),
        ("ssh db.example.com \"psql -c 'drop table users'\"",
         "Run psql (drop table users) on db.example.com (ssh)"),
        ("rsync -a --delete ./dist/ deploy@web.example.com:/srv",
         "Copy ./dist/ to deploy@web.example.com:/srv, deleting what is not in the source (rsync)"),
        ("docker exec db sh -c \"psql -c 'drop table users'\"", "Drop table users (docker exec db sh)"),
        ("docker exec db sh -c 'rm -rf /data'", "Run docker exec db sh: rm -rf /data"),
        ("docker compose exec web python manage.py flush", "Run docker compose exec web python manage.py flush"),
        ("ssh -p 22 root@10.0.0.1 -- systemctl stop db", "Run systemctl stop db on 10.0.0.1 (ssh)"),
        ("php artisan tinker --execute='User::truncate()'", "Delete records of User (php artisan tinker)"),
        ("curl -X POST https://pay.example/v1/refunds -d charge=ch_1 -d amount=500 -d currency=eur",
         "Send a POST request to pay.example/v1/refunds, amount 500, currency eur"),
        ("http POST https://pay.example/refunds amount=500",
         "Send a POST request to pay.example/refunds, amount 500 (http)"),
        ("tar czf k.tgz config/server.key", "Read config/server.key, pack k.tgz"),
        ("base64 config/server.key > k", "Read config/server.key, write k"),
        ("git branch -D topic", "Run git branch -D topic"),
        ("git reset --hard HEAD~3", "Run git reset --hard HEAD~3"),
        ("glab mr merge 5", "Merge merge request 5 (glab)"),
        ("gh secret set TOKEN -b hunter2", "Set secret TOKEN (gh)"),
        ("curl -XDELETE https://api.example.com/users/1?key=abc",
         "Send a DELETE request to api.example.com/users/1"),
        ("http --auth a:b DELETE https://api.example.com/users/1",
         "Send a DELETE request to api.example.com/users/1 (http)"),
        ("cat < config/server.key", "Read config/server.key"),
        ("cp config/server.key k", "Copy config/server.key to k"),
        ("python3 -c \"import sqlite3; sqlite3.connect('a').execute('DROP TABLE users')\"",
         "Run python3 -c: drop table users"),
        ("node -e \"fetch('https://api.example.com/u/1',{method:'DELETE'})\"",
         "Run node -e: send a DELETE request to api.example.com/u/1"),
        ("python <<< \"import shutil; shutil.rmtree('/srv/data')\"", "Run python: delete /srv/data"),
        ("npx supabase db reset --linked", "Run supabase db reset --linked (npx)"),
        ("a; b; c; d; acme destroy prod-db",
         "Run acme destroy prod-db in production, run a, run b and 2 more"),
        ("echo evil >> .git/hooks/pre-commit; curl https://x.example",
         "Contact x.example, write .git/hooks/pre-commit"),
    ],
)  # fmt: skip
def test_a_headline_says_what_a_command_does_and_to_what(command, title):
    assert judge(command).title == title


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("psql -f drop.sql", "Drop table users (psql)"),
        ("cat drop.sql | psql prod", "Drop table users (psql, database prod) in production"),
        ("psql -f unread.sql prod", "Run the statements in unread.sql (psql, database prod) in production"),
        ("sqlite3 app.db <<< 'drop table users'", "Drop table users (sqlite3)"),
        ("clickhouse-client --query 'DROP TABLE events'", "Drop table events (clickhouse-client)"),
        ("bq query 'DELETE FROM x.y WHERE true'", "Delete rows in x.y (bq query)"),
        ("unheard-of-db -e 'drop table users'", "Drop table users (unheard-of-db)"),
        ("redis-cli FLUSHALL", "Delete every key of every database (redis-cli)"),
        ("echo FLUSHALL | redis-cli -h cache-prod",
         "Delete every key of every database (redis-cli on cache-prod) in production"),
        ("redis-cli -n 3 DEL a b", "Delete the keys a, b (redis-cli, database 3)"),
        ("mongosh --eval 'db.users.drop()'", "Drop the collection users (mongosh)"),
        ("mongosh --eval 'db.getSiblingDB(\"x\").users.deleteMany({})'", "Delete all documents in users (mongosh)"),
        ("psql -c 'WITH d AS (DELETE FROM users RETURNING *) SELECT * FROM d'", "Delete all rows in users (psql)"),
        ("psql -c 'drop table users; -- later'", "Drop table users (psql)"),
        ("psql -c 'DROP TABLE 用户'", "Drop table 用户 (psql)"),
        ("psql -c \"do \\$\\$ begin execute 'drop table t'; end \\$\\$\"",
         "Drop table t and 1 more statement (psql)"),
        ("psql -c 'grant all on users to bob'", "Run grant all on users to bob (psql)"),
    ],
)  # fmt: skip
def test_statements_are_told_for_every_database(command, title):
    assert judge(command).title == title


@pytest.mark.parametrize(
    ("sql", "title"),
    [
        ("WITH x AS (DELETE FROM users RETURNING *) SELECT * FROM x", "Delete all rows in users (pg)"),
        ("do $$ begin execute 'drop table t'; end $$", "Drop table t and 1 more statement (pg)"),
        ("select 'a; DROP TABLE x' as s", "Query database (pg)"),
        ("-- drop table later\nselect 1", "Query database (pg)"),
        ("explain delete from users", "Run explain delete from users (pg)"),
    ],
)
def test_statements_inside_others_are_told_for_mcp(sql, title):
    assert classify("mcp__pg__query", {"sql": sql}, policy=POLICY).title == title


CRITICAL = ["terraform destroy", "terraform apply -destroy", "tofu apply -auto-approve -destroy", "pulumi destroy -s x"]
CRITICAL += ["helm uninstall a", "helm delete a", "gh repo delete a/b", "glab repo delete a/b", "fly apps destroy a"]
CRITICAL += ["heroku apps:destroy -a x", "kubectl delete ns shop", "kubectl delete namespace/shop", "cdk destroy"]
CRITICAL += ["npx cdk destroy --all", "gcloud projects delete p", "az group delete -n g", "aws s3 rb s3://b --force"]
CRITICAL += ["aws cloudformation delete-stack --stack-name s", "eksctl delete cluster c", "serverless remove"]
REMOTE = ["bq rm -r x.y", "stripe refunds create --charge c", "supabase db reset", "rabbitmqctl delete_queue q"]
REMOTE += ["kafka-topics --delete --topic t", "npm unpublish a@1", "cargo yank a", "gem yank a -v 1", "vercel --prod"]
REMOTE += [
    "npx vercel --prod",
    "netlify deploy --prod",
    "RAILS_ENV=production rails db:drop",
    "http DELETE a.example/x",
]
LOCAL = ["terraform plan -destroy", "npm uninstall lodash", "npm run deploy-docs", "docker ps", "stripe customers list"]
LOCAL += ["bq ls", "pulumi preview", "rails db:migrate", "poetry remove x", "cargo uninstall x", "yarn remove x"]


@pytest.mark.parametrize("held", [False, True])
def test_what_deletes_a_whole_or_publishes_asks_as_its_brothers_do(held):
    context = {"held": held, "hosts": []}
    assert [command for command in CRITICAL if judge(command, **context).tier != "critical"] == []
    assert [
        command for command in REMOTE if (judge(command, **context).tier, judge(command).undo) != ("high", "no")
    ] == []
    calm = [judge(command, **context).tier for command in LOCAL]
    assert "critical" not in calm


@pytest.mark.parametrize(
    "command",
    ["docker login -u bob -p hunter2", "vault login hunter2", "heroku config:set TOKEN=hunter2 --app x",
     "vault kv put secret/app password=hunter2", "fly secrets set DATABASE_URL=postgres://u:hunter2@h/db",
     "tool --password hunter2 delete x", "tool --api-key=hunter2 delete x",
     "psql postgres://u:hunter2@h/db -c 'drop x'",
     "tool connect postgres://u:hunter2@h/db", "docker run -e PW=hunter2 img", "mysql -u root -phunter2 -e 'drop x'",
     "curl -X DELETE https://u:hunter2@api.example.com/x"],
)  # fmt: skip
def test_a_headline_leaves_out_what_may_be_secret(command):
    assert "hunter2" not in judge(command).title

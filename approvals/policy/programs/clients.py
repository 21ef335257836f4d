"""Data about the clients of services and databases: their options, and the words by which they delete data."""

from ..shell_words import names

# Clients of services elsewhere. What one of them deletes or publishes is not on this machine.
SERVICES = names(
    """
    aws gcloud az gsutil bq s3cmd azcopy mc rclone heroku fly flyctl vercel netlify railway render firebase wrangler
    supabase turso pscale neonctl neon planetscale doctl linode-cli hcloud scw ibmcloud oci vultr-cli upctl exo
    kubectl oc helm helmfile k9s kustomize argocd flux velero istioctl eksctl kops rancher nomad consul vault etcdctl
    terraform tofu terragrunt pulumi cdk cdktf serverless sls sam copilot eb amplify ansible ansible-playbook salt
    stripe twilio shopify sentry-cli datadog-ci ngrok gh glab hub tea bb npm pnpm yarn bun cargo gem twine pip uv
    poetry rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh kafka-configs kafka-configs.sh kafka-consumer-groups
    kafka-consumer-groups.sh rpk kcat nats pulsar-admin influx cloudctl cf dokku kamal cap mrsk eas expo fastlane
    paypal square adyen braintree wise coinbase gocardless mollie razorpay plaid
    algolia contentful sanity auth0 okta doppler op launchdarkly snyk jfrog jf oras crane skopeo cosign nuget
    """
)
# Those of infrastructure, whose whole is gone with one of their verbs of loss.
INFRASTRUCTURE = names(
    "terraform tofu terragrunt pulumi cdk cdktf serverless sls sam copilot eb amplify helm helmfile eksctl kops"
)
# Package managers, most of whose verbs change this folder alone: {name: what changes the registry}.
REGISTRIES = dict.fromkeys(names("npm pnpm yarn bun"), names("publish unpublish deprecate dist-tag owner access"))
REGISTRIES |= {"cargo": names("publish yank owner"), "gem": names("push yank owner"), "twine": names("upload")}
REGISTRIES |= {"poetry": names("publish"), "uv": names("publish"), "pip": frozenset(), "nuget": names("push delete")}
# Programs that change the project's own database, wherever its settings say that it is.
TASKS = names(
    """
    rails rake manage.py django-admin artisan mix alembic flyway liquibase prisma sequelize sequelize-cli knex typeorm
    drizzle-kit dbmate goose migrate sqlx diesel ef dotnet-ef drush wp phinx doctrine console mikro-orm atlas
    """
)
# Shells of databases and their administrative programs, with the options whose value is a statement.
STATEMENTS = names("-c --command -e --execute --query -q -Q --sql --eval --statement -cmd -N --sql-statement --text")
SQL_SHELLS = names(
    """
    psql mysql mariadb sqlite3 duckdb clickhouse-client clickhouse-local clickhouse cqlsh sqlcmd snowsql snow bq trino
    presto hive beeline spark-sql cockroach usql pgcli mycli litecli mysqlsh sqlplus isql osql mssql-cli vsql nzsql
    athenacli impala-shell db2 fbsql firebird influx questdb tsql ysqlsh crdb
    """
)
LOSING_PROGRAMS = names("dropdb dropuser mysqladmin pg_restore mongorestore mongoimport elasticdump restic borg")
# Words with which a verb loses something; the second list only where the program is known.
LOSING = names(
    "delete del destroy drop purge wipe erase terminate flushall flushdb truncate uninstall unpublish deprovision"
    " decommission dropdatabase sqlflush teardown"
)
LOSING_OF_KNOWN = LOSING | names(
    "rm rb remove reset clean flush clear down downgrade rollback undo revert fresh yank empty prune forget expire zero"
    " deprecate unset cancel drain nuke"
)
PUBLISHING = names(
    "publish deploy release promote push upload refund refunds charge pay payout merge transfer submit up apply send"
)
# Clients that move money: whatever of theirs does not only read.
MONEY = names("stripe paypal square adyen braintree wise coinbase gocardless mollie razorpay plaid")
READING = names(
    "list get retrieve show describe search listen logs status version help whoami plan preview diff validate events"
)
PREVIEWS = names("plan preview diff validate synth show output")  # of a client of infrastructure
# What is more than one thing: whose loss is the loss of all in it.
WHOLES = names(
    """
    project projects app apps application applications namespace namespaces ns cluster clusters group repo repos rb
    repository stack stacks environment environments org organization account accounts site sites subscription
    tenant bucket buckets workspace db-instance db-cluster
    """
)
# Options with a value that says where a command acts, whatever the program is.
PLACES = {
    "--context": "context", "--kube-context": "context", "--namespace": "namespace", "--profile": "profile",
    "--project": "project", "--subscription": "subscription", "--resource-group": "group", "--region": "region",
    "--cluster": "cluster", "--replicas": "replicas", "--workspace": "workspace", "-target": "target", "--app": "app",
    "--repo": "repository", "--env": "environment", "--environment": "environment", "--stage": "stage",
    "--account": "account", "--org": "organization", "--organization": "organization", "--team": "team",
    "--site": "site", "--server": "server", "--host": "host", "--hostname": "host", "--zone": "zone",
    "--stack": "stack", "--stack-name": "stack", "--tenant": "tenant", "--inventory": "inventory", "--limit": "limit",
    "--database": "database", "--db": "database", "--dbname": "database", "--location": "location",
    "--scope": "scope", "--remote": "remote", "--target": "target", "--vhost": "vhost", "--bootstrap-server": "server",
    "-chdir": "folder", "--version": "version", "--amount": "amount", "--currency": "currency",
}  # fmt: skip
_CLUSTER = {"-n": "namespace"}
_DATABASE = {"-h": "host", "-d": "database", "-U": "", "-p": "", "-u": "", "-P": ""}
# Short ones mean something else with each program; "" for a value that is not told.
SHORT_PLACES = {
    **dict.fromkeys(names("kubectl oc helm flux argocd istioctl velero"), _CLUSTER),
    **dict.fromkeys(SQL_SHELLS | LOSING_PROGRAMS, _DATABASE),
    **{name: {"-a": "app", "-r": "remote"} for name in names("heroku fly flyctl")},
    **{name: {"-R": "repository"} for name in names("gh glab")},
    **{name: {"-i": "inventory", "-l": "limit"} for name in names("ansible ansible-playbook")},
    **{name: {"-v": "version"} for name in names("gem cargo")},
    **{name: {"-s": "stage"} for name in names("serverless sls")},
    **{name: {"-H": "host", "-p": "", "-e": "", "-u": ""} for name in names("docker podman")},
    "az": {"-g": "group", "-n": "name"},
    "pulumi": {"-s": "stack"},
    "redis-cli": {"-h": "host", "-n": "database", "-p": "", "-a": "", "-u": ""},
    "rabbitmqctl": {"-n": "node", "-p": "vhost"},
}
OTHER_SHORT = {"-u": "", "-U": "", "-p": "", "-P": "", "-o": ""}  # most often a user, a password, a port, an output
# Options without a value, whose next word is an operand.
FLAGS = names(
    """
    --install --check
    --force --yes --recursive --quiet --verbose --debug --auto-approve -auto-approve --noinput --no-input --confirm
    --prod --production --live --linked --volumes --all --all-namespaces --purge --dry-run --interactive --approve
    --non-interactive --assume-yes --skip-seed --wait --watch --detach --async --cascade --if-exists --json --global
    --remote-only --local-only --now --allow-empty --ignore-not-found --squash --rebase --merge --admin --latest
    --rm --privileged --help --version-only --clean --drop --delete --destroy -destroy --refresh-only --prerelease
    """
)
# Options that are told as written, since they widen what a command does.
TOLD = names("--all -A --all-namespaces --volumes --linked --live --hard --cascade --include-volumes --everything")
SECRET_PATH = names("secret secrets password passwd token tokens login auth vault credential credentials key keys env")
SECRET_PATH |= names("config:set variable variables kv set-secret op")
# Sub-commands that an object follows, as far as they neither lose nor publish anything.
ORDINARY = names("set get put add create list show read write update describe start stop restart scale view edit")
LOGINS = names("login auth passwd password")  # whose next word is a person or a secret
AROUND = names(
    """
    sudo doas env bundle npx bunx pnpx uvx pnpm yarn npm bun poetry uv pipenv pdm hatch rye doppler dotenv op docker
    podman kubectl oc heroku fly flyctl nohup time nice timeout xargs ionice setsid stdbuf command php python python3
    dotnet direnv mise asdf aws-vault chamber infisical pipx composer ssh compose exec exec: railway
    """
)

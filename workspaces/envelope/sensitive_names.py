"""The names of files that take effect by themselves, and of those that hold secrets.

One list for the policy, which judges what a command says (`approvals/policy/paths.py`), and for the kernel, which holds
what it does (`tree_scan.py`). `startup_files.py` says which tool reads a protected path, and where that is described.
The credentials of the agents that Handrail understands are SECRETS in `approvals/agents/*/protected.py`.
"""

import fnmatch
import re

from . import agents
from .startup_files import rows


def _names(text):
    return frozenset(text.split())


_PATHS = [path for _, paths, _ in rows() for path in paths]
PROTECTED = frozenset(path for path in _PATHS if "/" not in path and "*" not in path)
PROTECTED_PATTERNS = frozenset(path for path in _PATHS if "*" in path)
PROTECTED_PAIRS = {tuple(path.split("/")) for path in _PATHS if "/" in path and "*" not in path}
OUTER = {outer for outer, _ in PROTECTED_PAIRS}
# pattern: a name of at most 255 bytes
_PATTERNS = re.compile("|".join(fnmatch.translate(pattern) for pattern in sorted(PROTECTED_PATTERNS)))


def takes_effect(name, parent=""):
    """Return whether an entry of the folder `parent` takes effect by itself; both names in lower case."""
    if name in PROTECTED or (parent, name) in PROTECTED_PAIRS:
        return True
    return _PATTERNS.match(name) is not None or _PATTERNS.match(f"{parent}/{name}") is not None


def any_takes_effect(parts):
    """Return whether a path takes effect by itself, or lies in a folder that does; its parts in lower case."""
    return any(takes_effect(name, parent) for parent, name in zip(["", *parts], parts, strict=False))


_OF_AGENTS = _names(" ".join(agent.SECRETS for agent in agents.modules().values()))
SECRET_FOLDERS = _names(
    """
    .ssh .aws .gnupg .kube .azure .password-store .oci .aliyun .bluemix .minikube .chef .vnc .cloudflared .electrum
    .bitcoin .ethereum .pki keyrings
    """
)
# A folder, and a file or folder in it.
SECRET_PAIRS = {
    tuple(pair.split("/"))
    for pair in _names(
        """
    .docker/config.json .config/gh .config/gcloud .config/hub .config/glab-cli .config/doctl .config/hcloud
    .config/heroku .config/rclone .config/op .config/containers .config/configstore
    .config/solana .config/stripe .config/ngrok .config/netlify .config/sops .config/pypoetry
    .composer/auth.json .m2/settings.xml .m2/settings-security.xml
    .gradle/gradle.properties .subversion/auth .terraform.d/credentials.tfrc.json .pulumi/credentials.json
    .huggingface/token huggingface/token .snowsql/config .snowflake/connections.toml .dbt/profiles.yml .fly/config.yml
    .netlify/config.json .circleci/cli.yml .travis/config.yml .ngrok2/ngrok.yml .mc/config.json .purple/accounts.xml
    .local/keyrings
    """
    )
}
SECRET_PAIRS |= {tuple(name.split("/")) for name in _OF_AGENTS if "/" in name}
SECRET_NAMES = _names(
    """
    .env .env.* *.env .envrc .dev.vars .secrets secrets.json secrets.yml secrets.yaml secrets.toml secrets.ini
    secret.json secret.yml secret.yaml secret.toml local.settings.json *.tfvars *.tfstate *.tfstate.backup
    .netrc _netrc .authinfo .authinfo.gpg .rhosts .smbcredentials .xauthority
    .pgpass pgpass.conf .my.cnf .mylogin.cnf .dbshell .databrickscfg
    .npmrc .pypirc pip.conf auth.json auth.toml .terraformrc terraform.rc .condarc .boto .s3cfg .dockercfg
    .dockerconfigjson rclone.conf kaggle.json .linode-cli .tugboat .python-gitlab.cfg
    .git-credentials .gitcookies .vault-token .vault_pass* vault_pass* .ansible_vault_pass* .htpasswd
    id_rsa* id_dsa* id_ecdsa* id_ed25519* *.pem *.key *.p8 *.p12 *.pfx *.pkcs12 *.ppk *.kdb *.kdbx *.jks *.bks
    *.keystore *.agekey *.ovpn *.keychain *.agilekeychain secring.gpg key3.db key4.db logins.json cookies.sqlite
    wallet.dat
    credentials credentials.json credentials.yml credentials.yaml credentials.toml credentials.xml credentials.csv
    credentials.db .credentials .credentials.json application_default_credentials.json
    client_secret*.json service-account*.json service_account*.json *-service-account.json *firebase-adminsdk*.json
    accesstokens.json msal_token_cache.* kubeconfig *.kubeconfig k3s.yaml
    sftp-config.json .ftpconfig .remote-sync.json filezilla.xml sitemanager.xml recentservers.xml
    token.json .token .rediscli_auth robomongo.json proftpdpasswd otr.private_key
    *.psafe3 *.kwallet *.rdp *.cscfg
    .msmtprc .fetchmailrc .offlineimaprc .mbsyncrc .muttrc .esmtprc
    .bash_history .zsh_history .sh_history .history .python_history .node_repl_history .irb_history .psql_history
    .mysql_history .sqlite_history .rediscli_history .dbshell_history
    """
) | {name for name in _OF_AGENTS if "/" not in name}
NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub", "example.env", "sample.env")

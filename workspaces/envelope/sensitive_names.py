"""The names of files that take effect by themselves, and of those that hold secrets.

One list for the policy, which judges what a command says (`approvals/policy/paths.py`), and for the kernel, which holds
what it does (`tree_scan.py`).
"""


def _names(text):
    return frozenset(text.split())


PROTECTED = _names(
    """
    .git .claude .mcp.json .vscode .idea .devcontainer .husky .envrc .bashrc .bash_profile .bash_login
    .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv .zlogin .zlogout .kshrc .cshrc .tcshrc .login
    .inputrc .gitconfig .ssh .gnupg .pam_environment .xprofile .xsession .xinitrc .handrail
    """
)
# Where coding agents read settings, hooks and plugins from: files written there take effect at the agent's next start.
PROTECTED |= _names(
    """
    .codex .gemini .qwen .opencode opencode.json opencode.jsonc .cursor .copilot .kiro
    """
)
PROTECTED_PAIRS = {(".github", "workflows"), (".config", "fish"), (".config", "git"), (".config", "autostart")}
PROTECTED_PAIRS |= {(".github", "hooks"), (".config", "opencode")}
OUTER = {outer for outer, _ in PROTECTED_PAIRS}
SECRET_FOLDERS = {".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"}
SECRET_PAIRS = {(".docker", "config.json"), (".config", "gh"), (".config", "gcloud"), (".config", "hub")}
SECRET_PAIRS |= {(".codex", "auth.json"), (".gemini", "oauth_creds.json"), (".qwen", "oauth_creds.json")}
SECRET_NAMES = _names(
    """
    .env .env.* *.env .netrc _netrc .pgpass .npmrc .pypirc .git-credentials .vault-token .envrc id_rsa* id_dsa*
    id_ecdsa* id_ed25519* *.pem *.key *.p12 *.pfx *.kdbx *.jks *.keystore credentials credentials.json
    credentials.yml secrets.json secrets.yml secrets.yaml secrets.toml .htpasswd kubeconfig
    service-account*.json *.tfstate .credentials.json
    """
)
NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub", "example.env", "sample.env")

"""All settings. Each environment variable is read once, here and nowhere else (a test compares docs/settings.md)."""

import hashlib
import os
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from whitenoise.compress import Compressor

from dashboard.database.connection import database
from dashboard.keys.key_files import make_private, read_or_make
from dashboard.net.addresses import in_url, local_preview_host, shared_domain, to_call
from dashboard.net.decision_point import read_decision_point
from dashboard.net.oidc_settings import read_rules, refused_issuer
from dashboard.net.upstream import Upstream, read_authorities, read_named, read_no_proxy, read_proxy
from dashboard.net.upstreams import read_upstreams
from dashboard.net.witness import read_certificates, read_witness
from dashboard.text.setting_values import (
    env,
    env_address,
    env_authority,
    env_bucket,
    env_choice,
    env_folder,
    env_folders,
    env_host,
    env_hosts,
    env_int,
    env_namespace,
    env_program,
    env_read,
    env_some,
    env_switch,
    read_home,
    refused,
)
from workspaces.egress.addresses import read_networks

BASE_DIR = Path(__file__).resolve().parent.parent


# One folder for all data; sockets in a runtime folder with a short path (a socket's path is limited to 107 bytes).
HANDRAIL_HOME = Path(env("HANDRAIL_HOME") or BASE_DIR / "var").resolve()
try:
    make_private(HANDRAIL_HOME)
except OSError as error:
    must_be = f"a folder that can be written ({error.strerror})"
    raise refused("HANDRAIL_HOME", must_be, str(HANDRAIL_HOME)) from None
# What this host was given when it joined (`manage.py join`); the environment comes first.
HANDRAIL_MEMBER_FILE = HANDRAIL_HOME / "host.env"
read_home(HANDRAIL_MEMBER_FILE)
_home_tag = hashlib.sha256(str(HANDRAIL_HOME).encode()).hexdigest()[:12]
# Workspaces get host uids from here up, in a range that another installation on this host is unlikely to have too.
HANDRAIL_FIRST_UID = 1_000_000 + int(_home_tag, 16) % 10_000 * 100_000
HANDRAIL_RUNTIME = env_folder("HANDRAIL_RUNTIME", Path(tempfile.gettempdir()) / f"handrail-{os.geteuid()}-{_home_tag}")
HANDRAIL_HOST = env_host("HANDRAIL_HOST", "127.0.0.1")
HANDRAIL_PORT = env_int("HANDRAIL_PORT", 8000, least=1, most=65_535)
_shown_host = in_url(to_call(HANDRAIL_HOST))
_own_url = f"http://{_shown_host}:{HANDRAIL_PORT}"
HANDRAIL_PUBLIC_URL = env_address("HANDRAIL_PUBLIC_URL", ("http", "https"), _own_url)
_public = urlsplit(HANDRAIL_PUBLIC_URL)
_over_tls = _public.scheme == "https"
# By default, browsers use a host name of our own that no dev server on this machine shares, since a cookie of 127.0.0.1
# is sent to every port of it (see desk_name.py). Requests to HANDRAIL_LOCAL_NAMES are redirected there.
# `http://localhost:PORT` is not: it is for browsers that cannot open this name.
_local_urls = {_own_url, *(f"http://{name}:{HANDRAIL_PORT}" for name in ("127.0.0.1", "[::1]", "handrail.localhost"))}
HANDRAIL_DESK_IS_LOCAL = HANDRAIL_PUBLIC_URL in _local_urls and _shown_host in ("127.0.0.1", "localhost", "[::1]")
HANDRAIL_LOCAL_NAMES = {"127.0.0.1", "localhost", "[::1]"} if HANDRAIL_DESK_IS_LOCAL else set()
HANDRAIL_DESK_URL = f"http://handrail.localhost:{HANDRAIL_PORT}" if HANDRAIL_DESK_IS_LOCAL else HANDRAIL_PUBLIC_URL
_desk = urlsplit(HANDRAIL_DESK_URL)
# Ports of workspaces are shown below this host name, which shares neither name nor cookies with the desk.
HANDRAIL_PREVIEW_HOST = env_host("HANDRAIL_PREVIEW_HOST", local_preview_host(_desk.hostname)).lower()
if HANDRAIL_PREVIEW_HOST and (_shared := shared_domain(HANDRAIL_PREVIEW_HOST, _desk.hostname)):
    must_be = f"a host name that shares no domain with the desk ({_shared})"
    raise refused("HANDRAIL_PREVIEW_HOST", must_be, HANDRAIL_PREVIEW_HOST)

# Folders under which local repositories may be cloned, and whether sources at private addresses may be.
HANDRAIL_LOCAL_SOURCES = [path.resolve() for path in env_folders("HANDRAIL_LOCAL_SOURCES")]
HANDRAIL_PRIVATE_SOURCES = env_switch("HANDRAIL_PRIVATE_SOURCES")
# Hosts cloned from and pushed to with the git configuration, credentials and keys of the user that runs Handrail.
HANDRAIL_GIT_HOSTS = env_hosts("HANDRAIL_GIT_HOSTS")
# Private networks that workspaces may reach by names on their lists; and a hosts file for such names.
HANDRAIL_EGRESS_NETWORKS = env_read("HANDRAIL_EGRESS_NETWORKS", "networks such as 10.1.0.0/16,fd00::/8", read_networks)
HANDRAIL_EGRESS_HOSTS = env("HANDRAIL_EGRESS_HOSTS")
if HANDRAIL_EGRESS_HOSTS and not Path(HANDRAIL_EGRESS_HOSTS).is_file():
    raise refused("HANDRAIL_EGRESS_HOSTS", "a file that is there", HANDRAIL_EGRESS_HOSTS)
# The company's proxy, by which workspaces and Handrail itself leave; what goes straight; the company's authorities.
HANDRAIL_UPSTREAM_PROXY = env_read("HANDRAIL_UPSTREAM_PROXY", "the address of a proxy", read_proxy, is_secret=True)
HANDRAIL_UPSTREAM_NO_PROXY = env("HANDRAIL_UPSTREAM_NO_PROXY")
HANDRAIL_UPSTREAM = Upstream(
    HANDRAIL_UPSTREAM_PROXY,
    env_read("HANDRAIL_UPSTREAM_NO_PROXY", "hosts and networks with commas between them", read_no_proxy),
    env_read("HANDRAIL_UPSTREAM_CA", "a file of certificates in PEM", read_authorities),
)
# Others that environments name, for their workspaces alone.
HANDRAIL_UPSTREAMS = env_read("HANDRAIL_UPSTREAMS", "a file of named proxies", read_named)
# Private networks that notifications may be sent to (an ntfy of one's own, say), and the operator's contact for push
# services, a mailto: or https: address.
HANDRAIL_NOTIFY_NETWORKS = env_read("HANDRAIL_NOTIFY_NETWORKS", "networks such as 10.1.0.0/16,fd00::/8", read_networks)
HANDRAIL_NOTIFY_CONTACT = env("HANDRAIL_NOTIFY_CONTACT")
if HANDRAIL_NOTIFY_CONTACT and not HANDRAIL_NOTIFY_CONTACT.startswith(("mailto:", "https:")):
    raise refused("HANDRAIL_NOTIFY_CONTACT", "a mailto: or https: address", HANDRAIL_NOTIFY_CONTACT)
# The folder for what leaves Handrail as files: logs (below it one folder for each team) and scheduled backups.
HANDRAIL_EXPORTS = env_folder("HANDRAIL_EXPORTS", HANDRAIL_HOME / "exports")
# The folder for signed checkpoints of each team's log, best on another machine.
HANDRAIL_CHECKPOINTS = env_folder("HANDRAIL_CHECKPOINTS", HANDRAIL_EXPORTS / "checkpoints")
# A time-stamping authority (RFC 3161) as an outside witness of the checkpoints, the certificates that its answers have
# to come from, and how often it is asked. Minutes.
HANDRAIL_WITNESS_URL = env_read("HANDRAIL_WITNESS_URL", "an http or https address", read_witness)
HANDRAIL_WITNESS_CA = env_read("HANDRAIL_WITNESS_CA", "the path of a PEM file", read_certificates)
HANDRAIL_WITNESS_MINUTES = env_int("HANDRAIL_WITNESS_MINUTES", 60, least=1, most=1440)
if HANDRAIL_WITNESS_URL and not HANDRAIL_WITNESS_CA:
    raise ImproperlyConfigured("HANDRAIL_WITNESS_URL needs HANDRAIL_WITNESS_CA.")
# An OpenID Connect provider that people sign in with; set here, it replaces the one of the Django admin
# (dashboard/people/sso.py reads both).
HANDRAIL_OIDC = {
    "issuer": env("HANDRAIL_OIDC_ISSUER"),
    "name": env("HANDRAIL_OIDC_NAME", "single sign-on"),
    "client_id": env("HANDRAIL_OIDC_CLIENT_ID"),
    "secret": env("HANDRAIL_OIDC_CLIENT_SECRET"),
    "scopes": env("HANDRAIL_OIDC_SCOPES", "openid profile email"),
    "groups_claim": env("HANDRAIL_OIDC_GROUPS_CLAIM", "groups"),
    "username_claim": env("HANDRAIL_OIDC_USERNAME_CLAIM", "preferred_username"),
    "second_factor_values": env("HANDRAIL_OIDC_SECOND_FACTOR"),
    "session_hours": env_int("HANDRAIL_OIDC_SESSION_HOURS", 12, least=1),
    "break_glass": env("HANDRAIL_OIDC_BREAK_GLASS"),  # with a name here passwords are off for everybody else
    "rules": env_read("HANDRAIL_OIDC_ROLES", "GROUP=TEAM:ROLE with commas between them", read_rules),
}
if HANDRAIL_OIDC["issuer"] and (why_not := refused_issuer(HANDRAIL_OIDC["issuer"])):
    raise ImproperlyConfigured(f"HANDRAIL_OIDC_ISSUER can't be {HANDRAIL_OIDC['issuer']!r}. {why_not}")
if HANDRAIL_OIDC["issuer"] and not HANDRAIL_OIDC["client_id"]:
    raise ImproperlyConfigured("HANDRAIL_OIDC_ISSUER needs HANDRAIL_OIDC_CLIENT_ID.")
HANDRAIL_OIDC_ROLE_DAYS = env_int("HANDRAIL_OIDC_ROLE_DAYS", 30, least=1)
# How long a hook is held before the agent is answered "not yet": five minutes less than the day after which Claude Code
# gives up on its hook. Set it below the limit of a proxy that ends long requests. Seconds.
HANDRAIL_HOLD_SECONDS = env_int("HANDRAIL_HOLD_SECONDS", 24 * 3600 - 300, least=1)
HANDRAIL_EXPIRY_SECONDS = env_int("HANDRAIL_EXPIRY_SECONDS", 30 * 60, least=5)
# Whether programs that the runner starts for agents are held to envelopes where the kernel can, and judged by them.
HANDRAIL_HELD = env_switch("HANDRAIL_HELD", default=True)
# What becomes of commands and terminals that agents start over the API where nothing holds them: "ask" or "run".
HANDRAIL_UNHELD = env_choice("HANDRAIL_UNHELD", ("ask", "run"), "ask")
# Whether the files of workspaces that are up are watched, so that a snapshot looks only at what may have changed.
HANDRAIL_WATCH = env_choice("HANDRAIL_WATCH", ("on", "off"), "on") == "on"
# What is asked about each call beside the policy, and how long an answer over HTTP may take before a person is asked.
HANDRAIL_DECISION_POINT = env_read(
    "HANDRAIL_DECISION_POINT", "cedar:/path/to/policies.cedar or opa:http://host/v1/data/…", read_decision_point
)
HANDRAIL_DECISION_POINT_SECONDS = env_int("HANDRAIL_DECISION_POINT_SECONDS", 2, least=1, most=30)
# Folders in which gh, glab and git are looked for, to read at the code host with the person's credentials.
HANDRAIL_CODE_HOST_PATH = ":".join(
    map(str, env_folders("HANDRAIL_CODE_HOST_PATH", "/usr/local/bin:/usr/bin:/bin:/home/linuxbrew/.linuxbrew/bin"))
)
# Where the model relay sends the requests of agents that Handrail starts, by provider.
HANDRAIL_MODEL_UPSTREAMS = env_read(
    "HANDRAIL_MODEL_UPSTREAMS", "provider=https://host with spaces between them", read_upstreams
)
HANDRAIL_CONSUME_SECONDS = env_int("HANDRAIL_CONSUME_SECONDS", 24 * 3600, least=5)
HANDRAIL_SETUP_SECONDS = env_int("HANDRAIL_SETUP_SECONDS", 15 * 60, least=1)
HANDRAIL_IDLE_SECONDS = env_int("HANDRAIL_IDLE_SECONDS", 5 * 60, least=5)
HANDRAIL_STOP_SECONDS = env_int("HANDRAIL_STOP_SECONDS", 7 * 24 * 3600, least=5)
HANDRAIL_SNAPSHOT_SECONDS = env_int("HANDRAIL_SNAPSHOT_SECONDS", 3600, least=0)
HANDRAIL_SWEEP_HOUR = env_int("HANDRAIL_SWEEP_HOUR", 3, most=23)
HANDRAIL_TRASH_DAYS = env_int("HANDRAIL_TRASH_DAYS", 30, least=1)
HANDRAIL_OUTPUT_BYTES = env_int("HANDRAIL_OUTPUT_BYTES", 64 * 1024 * 1024, least=4096)
HANDRAIL_CHROMIUM = env_program("HANDRAIL_CHROMIUM")
HANDRAIL_BODY_BYTES = env_int("HANDRAIL_BODY_BYTES", 1024 * 1024, least=4096)
HANDRAIL_FILE_BYTES = env_int("HANDRAIL_FILE_BYTES", 256 * 1024 * 1024, least=4096)
HANDRAIL_UPLOAD_BYTES = env_int("HANDRAIL_UPLOAD_BYTES", 1024 * 1024 * 1024, least=4096)
HANDRAIL_UNPACKED_BYTES = env_int("HANDRAIL_UNPACKED_BYTES", 10 * 1024 * 1024 * 1024, least=4096)
HANDRAIL_UNPACKED_ENTRIES = env_int("HANDRAIL_UNPACKED_ENTRIES", 1_000_000, least=1)
# The Docker engine's socket, and the OCI runtime for its containers (runsc, kata, …) if not its own.
_engines = ("unix", "tcp", "http", "https", "ssh", "npipe")
HANDRAIL_DOCKER_HOST = env_address(
    "HANDRAIL_DOCKER_HOST", _engines, env_address("DOCKER_HOST", _engines, "unix:///var/run/docker.sock")
)
HANDRAIL_DOCKER_RUNTIME = env("HANDRAIL_DOCKER_RUNTIME")
# Registries from which images that an environment names by digest are pulled.
HANDRAIL_PULL_FROM = env_hosts("HANDRAIL_PULL_FROM")
# The namespace of workspaces' pods, with a context of the kubeconfig if it is not the current one; whether each team
# has one of its own beside it; what makes the pods; and how many wait for a workspace of each environment in use.
HANDRAIL_KUBERNETES = env_namespace("HANDRAIL_KUBERNETES")
HANDRAIL_KUBERNETES_NAMESPACES = env_choice("HANDRAIL_KUBERNETES_NAMESPACES", ("team", "shared"), "team")
HANDRAIL_KUBERNETES_SOURCE = env_choice("HANDRAIL_KUBERNETES_SOURCE", ("pods", "agent-sandbox"), "pods")
HANDRAIL_KUBERNETES_WARM = env_int("HANDRAIL_KUBERNETES_WARM", 0, most=100)
# Options of drivers: {driver: {option: value}}.
HANDRAIL_DRIVERS = {
    "kubernetes": {
        "at": HANDRAIL_KUBERNETES,
        "namespaces": HANDRAIL_KUBERNETES_NAMESPACES,
        "source": HANDRAIL_KUBERNETES_SOURCE,
        "warm": HANDRAIL_KUBERNETES_WARM,
    },
    "docker": {
        "address": HANDRAIL_DOCKER_HOST,
        "runtime": HANDRAIL_DOCKER_RUNTIME,
        "pull_from": HANDRAIL_PULL_FROM,
    },
}
# For `manage.py push`, which calls the API like any client.
HANDRAIL_TOKEN = env("HANDRAIL_TOKEN")
HANDRAIL_PENDING_LIMIT = env_int("HANDRAIL_PENDING_LIMIT", 500, least=1)
HANDRAIL_AGENT_PENDING_LIMIT = env_int("HANDRAIL_AGENT_PENDING_LIMIT", 100, least=1)
HANDRAIL_POLL_LIMIT = env_int("HANDRAIL_POLL_LIMIT", 400, least=1)
HANDRAIL_REQUEST_THREADS = env_int("HANDRAIL_REQUEST_THREADS", 16, least=1)
# Capacity of a host. 0 means no limit but the host's own.
MACHINE_MEMORY, MACHINE_CPUS = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), os.cpu_count() or 1
HANDRAIL_WORKSPACE_BYTES = env_int("HANDRAIL_WORKSPACE_BYTES", 20 * 1024**3)
HANDRAIL_WORKSPACE_MEMORY = env_int("HANDRAIL_WORKSPACE_MEMORY", min(4 * 1024**3, MACHINE_MEMORY // 2))
HANDRAIL_WORKSPACE_CPUS = env_int("HANDRAIL_WORKSPACE_CPUS", min(MACHINE_CPUS, max(2, MACHINE_CPUS // 2)))
HANDRAIL_RESERVE_BYTES = env_int("HANDRAIL_RESERVE_BYTES", 1024**3)
HANDRAIL_RUNS = env_int("HANDRAIL_RUNS", 100)
HANDRAIL_PROMISED_MEMORY = env_int("HANDRAIL_PROMISED_MEMORY", MACHINE_MEMORY)
HANDRAIL_PROMISED_CPUS = env_int("HANDRAIL_PROMISED_CPUS", 4 * MACHINE_CPUS)
# This host's name among several that share a database, the host:port at which the webs of the others reach its runner
# (none: only its own web does), and which parts run here.
HANDRAIL_HOST_NAME = env("HANDRAIL_HOST_NAME") or socket.gethostname()
HANDRAIL_RUNNER_ADDRESS = env_authority("HANDRAIL_RUNNER_ADDRESS")
HANDRAIL_PARTS = env_some("HANDRAIL_PARTS", ("web", "runner", "queue"))
# Where snapshots are kept: folders below HANDRAIL_HOME, or a bucket that several hosts share, reached as AWS_* say.
HANDRAIL_BUCKET = env_bucket("HANDRAIL_BUCKET")
HANDRAIL_BUCKET_CACHE = env_int("HANDRAIL_BUCKET_CACHE", 4 * 1024**3)  # bytes of copies on this host, for each team
# How long another host waits before it takes over an operation that was claimed here and not started. Seconds.
HANDRAIL_LEASE_SECONDS = env_int("HANDRAIL_LEASE_SECONDS", 20, least=5)
# Minutes of silence after which a host is declared lost by itself; 0: only a person says so.
HANDRAIL_LOST_MINUTES = env_int("HANDRAIL_LOST_MINUTES", 0)
HANDRAIL_LOG_LEVEL = env_choice("HANDRAIL_LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"), "INFO")
# Only for tests: the point at which a process sends itself SIGKILL (see dashboard/workers/failpoints.py).
HANDRAIL_FAILPOINT = env("HANDRAIL_FAILPOINT")
DEBUG = env_switch("HANDRAIL_DEBUG")

KEYS_DIR = HANDRAIL_HOME / "keys"
SECRET_KEY = read_or_make(KEYS_DIR / "secret_key")

ALLOWED_HOSTS = sorted({_desk.hostname, _public.hostname, "localhost", "127.0.0.1", "[::1]", "handrail.internal"})
CSRF_TRUSTED_ORIGINS = [HANDRAIL_DESK_URL]
CSRF_FAILURE_VIEW = "dashboard.web.typed.form_expired"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _over_tls or HANDRAIL_DESK_IS_LOCAL
# Cookies are not separated by port: the name keeps two Handrails on one machine apart; __Host- binds it to the host. It
# has the port of the address that people use: the webs of several hosts behind that have ports of their own.
_cookie = "__Host-handrail" if SESSION_COOKIE_SECURE else "handrail"
_port = f"-{_public.port}" if _public.port else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_cookie}{_port}", f"{_cookie}-csrf{_port}"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# In the session, so that a browser that refuses Secure cookies over plain http still gets its notices.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_SAVE_EVERY_REQUEST = False
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _over_tls else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    # The app only serves `runserver`, and would load Twisted into every process and command; web imports daphne itself.
    *(["daphne"] if "runserver" in sys.argv[1:2] else []),
    "dashboard",
    "workspaces",
    "approvals",
    "django.contrib.admin.apps.SimpleAdminConfig",  # dashboard/urls.py calls autodiscover
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",  # its rows; dashboard/site/sso has the provider, the adapter and the pages
    "allauth.usersessions",  # its rows; written by dashboard/people/sessions.py
    "csp",
    "django_q",
]
MIDDLEWARE = [
    "dashboard.web.middleware.request_id",
    *(["dashboard.net.desk_name.redirect_to_desk_name"] if HANDRAIL_DESK_IS_LOCAL else []),
    "dashboard.web.middleware.Security",
    "dashboard.web.middleware.ContentSecurityPolicy",
    "dashboard.web.middleware.Compression",
    "dashboard.web.middleware.StaticFiles",
    "dashboard.web.middleware.Sessions",
    "dashboard.web.middleware.Common",
    "dashboard.web.middleware.Csrf",
    "dashboard.web.middleware.Authentication",
    "dashboard.web.middleware.Messages",
    "dashboard.web.middleware.Frames",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dashboard.people.sessions.note_use",
    "dashboard.site.maintenance.tell_programs",
    "dashboard.web.middleware.time_zone",
    "dashboard.web.middleware.language",
    "dashboard.web.middleware.UnstorableText",
]
# Ninja's templates and static files, by folder: as an installed app it would be loaded by every process and command.
NINJA = Path(find_spec("ninja").origin).parent
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates", NINJA / "templates"],
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n"],  # translate and blocktranslate in every template
            "loaders": [
                (
                    "dashboard.web.template_loader.Loader",
                    [
                        "django.template.loaders.filesystem.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.site.context.page",
            ],
        },
    }
]

DATABASES = {"default": database(env("DATABASE_URL"), HANDRAIL_HOME)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    # Counted lines between trees are most of the entries.
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}},
}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# How many proxies of one's own are in front: the client's address is that many from the end of X-Forwarded-For.
ALLAUTH_TRUSTED_PROXY_COUNT = env_int("HANDRAIL_TRUSTED_PROXIES", 0)
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "dashboard.site.accounts.ClosedSignup"
ACCOUNT_LOGIN_METHODS = {"username"}  # email addresses are not verified; see dashboard/site/accounts.py
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "/accounts/login/"
# Passkeys, an authenticator app and recovery codes; see dashboard/site/second_factor.py.
MFA_ADAPTER = "dashboard.site.second_factor.SecondFactors"
MFA_SUPPORTED_TYPES = ["webauthn", "totp", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_WEBAUTHN_USER_VERIFICATION = "required"  # a fingerprint, a face or a PIN: more than having the device
MFA_ALLOW_UNVERIFIED_EMAIL = True  # addresses are not verified, and nobody signs up
MFA_TOTP_TOLERANCE = 1  # a code also counts in the 30 seconds before and after its own
MFA_FORMS = {
    "add_webauthn": "dashboard.site.second_factor.AddPasskey",
    "edit_webauthn": "dashboard.site.second_factor.RenamePasskey",
    "login_webauthn": "dashboard.site.second_factor.SignInByPasskey",
    "authenticate_webauthn": "dashboard.site.second_factor.AuthenticateByPasskey",
    "reauthenticate_webauthn": "dashboard.site.second_factor.ReauthenticateByPasskey",
    "authenticate": "dashboard.site.second_factor.AuthenticateByCode",
    "reauthenticate": "dashboard.site.second_factor.ReauthenticateByCode",
}
SOCIALACCOUNT_ADAPTER = "dashboard.site.sso.adapter.SingleSignOnAdapter"
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

# Work behind the scenes has lanes (dashboard/workers/lanes.py): clusters of django-q2, each with workers and limits.
# Seconds: `timeout` is how long a task may take, `retry` after which one that was cut short is due again. django-q2's
# cluster claims two tasks more than it runs, so the last of three may end after three times the timeout.
Q_CLUSTER = {
    "name": "handrail",  # the lane for upkeep, and for what names none
    "orm": "default",
    "workers": 1,
    "timeout": 600,
    "retry": 2000,
    "ack_failures": True,
    "max_attempts": 1,
    "save_limit": 1000,
    "catch_up": False,
    "ALT_CLUSTERS": {
        "push": {"workers": 2, "timeout": 120, "retry": 400},  # the second sends while receivers hold up the first
        "webhooks": {"timeout": 120, "retry": 400},
        "logs": {"timeout": 120, "retry": 400},
        "hosts": {"timeout": 120, "retry": 400},  # reads code hosts for tasks
        "timely": {"timeout": 120, "retry": 400},  # starts and follows schedules, keeps to limits, warns
    },
}
# The lanes that the queue process of this host serves; others are left to `manage.py qcluster` elsewhere.
_lanes = [Q_CLUSTER["name"], *Q_CLUSTER["ALT_CLUSTERS"]]
_served = [name.strip() for name in env("HANDRAIL_LANES").split(",") if name.strip()]
HANDRAIL_LANES = [] if _served == ["none"] else _served or _lanes
if set(HANDRAIL_LANES) - set(_lanes):
    raise refused("HANDRAIL_LANES", f"some of {', '.join(_lanes)}, or none", env("HANDRAIL_LANES"))

STATIC_URL = "/static/"
STATIC_ROOT = HANDRAIL_HOME / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static", NINJA / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_MANIFEST_STRICT = False
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]  # only developer tools load them
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * HANDRAIL_BODY_BYTES

LANGUAGE_CODE = (
    "en"  # of the API, the log and what is recorded; pages are in the reader's (dashboard/web/middleware.py)
)
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LANGUAGE_COOKIE_NAME = "handrail-language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SAMESITE = "Lax"
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"outage": {"()": "dashboard.logs.Outage"}, "context": {"()": "dashboard.logs.Context"}},
    "formatters": {"line": {"()": "dashboard.logs.Line", "fmt": "%(levelname)s %(name)s%(context)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["outage", "context"]}},
    "root": {"handlers": ["stderr"], "level": HANDRAIL_LOG_LEVEL},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "daphne.http_protocol": {"level": "WARNING"},
        "aiohttp.access": {"level": "WARNING"},
        "django-q": {"level": "WARNING"},  # it logs a line for each task, heartbeats included
    },
}

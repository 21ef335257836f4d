"""Where a command acts: the clusters, hosts, accounts, databases and branches that its words name, and what it may do.

Only what its effects say reaches another system is looked at. Conditions of a policy ask for it (see conditions.py);
targets.py says which target such a destination is.
"""

import itertools
import posixpath
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from .leaving import says_so
from .programs import acts, clients, services
from .programs.tables import BUILDS
from .reading import reads_only
from .shell_words import OPAQUE, names
from .targets import Destination, Name

REACHING = ("remote", "push", "network")
KUBE = names("kubectl oc helm flux argocd istioctl velero k9s helmfile")
TERRAFORM = names("terraform tofu terragrunt")
AWS = names("aws sam cdk eb copilot aws-vault eksctl")
GCLOUD = names("gcloud gsutil bq")
HTTP = names("curl wget http https xh xhs httpie curlie")
CODE_HOSTS = {"gh": "github.com", "hub": "github.com", "glab": "gitlab.com"}
HOSTING = names("heroku fly flyctl vercel netlify railway render firebase wrangler dokku kamal supabase")
REMOTE_SHELLS = names("ssh scp sftp rsync mosh telnet ftp lftp nc ncat netcat")
DATABASES = clients.SQL_SHELLS | clients.LOSING_PROGRAMS | names("redis-cli mongosh mongo mongodump pg_dump mysqldump")
CLIENTS = KUBE | TERRAFORM | AWS | GCLOUD | HTTP | HOSTING | REMOTE_SHELLS | DATABASES | {"az", "git", *CODE_HOSTS}
CLIENTS |= clients.SERVICES
# What a label of acts.act_of means as a kind of targets.KINDS, for every program and for some alone.
KIND_OF = {"host": "host", "server": "host", "database": "db", "environment": "env", "stage": "env", "stack": "env"}
KIND_OF |= {"app": "app", "site": "app", "namespace": "namespace", "subscription": "azure"}
KIND_FOR = [
    (KUBE, {"context": "kube", "cluster": "kube"}),
    (AWS | TERRAFORM, {"profile": "aws"}),
    (GCLOUD | names("firebase terraform"), {"project": "gcloud"}),
    (TERRAFORM, {"workspace": "terraform", "folder": "terraform"}),
]
# Variables that say where a program acts.
VARIABLES = {
    **dict.fromkeys(names("AWS_PROFILE AWS_DEFAULT_PROFILE"), "aws"),
    **dict.fromkeys(names("KUBECONFIG HELM_KUBECONTEXT KUBE_CONTEXT KUBECTL_CONTEXT"), "kube"),
    **dict.fromkeys(names("CLOUDSDK_CORE_PROJECT CLOUDSDK_ACTIVE_CONFIG_NAME GOOGLE_CLOUD_PROJECT"), "gcloud"),
    **dict.fromkeys(names("GCLOUD_PROJECT GOOGLE_PROJECT"), "gcloud"),
    **dict.fromkeys(names("ARM_SUBSCRIPTION_ID AZURE_SUBSCRIPTION AZURE_SUBSCRIPTION_ID"), "azure"),
    **dict.fromkeys(names("PGHOST MYSQL_HOST REDIS_HOST DOCKER_HOST"), "host"),
    **dict.fromkeys(names("PGDATABASE MYSQL_DATABASE"), "db"),
    **dict.fromkeys(names("DATABASE_URL POSTGRES_URL MONGO_URL REDIS_URL PGSERVICE"), "db"),
    **dict.fromkeys(names("FLY_APP HEROKU_APP"), "app"),
    **dict.fromkeys(names("RAILS_ENV RACK_ENV APP_ENV DEPLOY_ENV ENVIRONMENT ENV STAGE DJANGO_ENV MIX_ENV"), "env"),
    "TF_WORKSPACE": "terraform",
}
# What a program acts on if its words name nothing.
UNNAMED = [(KUBE, ("kube",)), (AWS, ("aws",)), (GCLOUD, ("gcloud",)), (frozenset({"az"}), ("azure",))]
UNNAMED += [(DATABASES, ("host", "db")), (REMOTE_SHELLS, ("host",)), (HOSTING, ("app",))]
KUBECONFIG = "--kubeconfig"
MANY_REFS = names("--all --branches --mirror --prune --tags")  # options of git push
ATTACHED = re.compile(r"-([hd])([\w.][\w.-]*)")
PAIR = re.compile(r"\b(host|hostaddr|dbname)\s*=\s*'?([\w.-]+)")
MODES = ("--mode", "--configuration", "-c", "--config-name")  # whose value says how something is built
MAX_HINTS = 40
MAX_HINT = 200


@dataclass(frozen=True)
class Reach:
    """Where one call acts. `reads`: it only reads there; `amounts`: of money, each a Decimal or None if not certain.

    `is_unread`: the call could not be read, so it may act anywhere.
    """

    destinations: tuple = ()
    reads: bool = False
    amounts: tuple = ()
    is_unread: bool = False

    @property
    def writes(self):
        """Return whether it may change something there."""
        return bool(self.destinations) and not self.reads

    def as_dict(self):
        """Return {places, amounts, is_open}: [kind, value or None] of each name, and [digits or None, currency].

        `is_open`: it may act at a place that no name says.
        """
        named = [name for place in self.destinations for name in place.names]
        is_open = self.is_unread or any(place.is_open or not place.names for place in self.destinations)
        amounts = [[None if value is None else str(value), currency] for value, currency in self.amounts]
        return {"places": [[name.kind, name.value] for name in named], "amounts": amounts, "is_open": is_open}


NOWHERE = Reach()


def unread(text):
    """Return the Reach of a command that could not be read: it may act anywhere."""
    hints = tuple(word[:MAX_HINT] for word in re.split(r"\s+", text)[:MAX_HINTS])
    return Reach((Destination(hints=hints), Destination(is_open=True)), is_unread=True)


def of_command(simple, found, world, branch=None):
    """Return where a simple command acts. `found` is its commands.Found, `branch` the one of the workspace if known."""
    effects = [*found.effects, *found.within]
    if not simple.words or not any(map(_reaches, effects)):
        return NOWHERE
    forms = [[word.text for word in found.words], *found.also]
    forms += [form[at:] for form in forms[:1] for at in range(1, min(len(form), 30)) if _base(form[at]) in CLIENTS]
    variables = [(name, _text_of(value)) for name, value in simple.assigns if name in VARIABLES]
    variables += [pair for form in forms for pair in _set_by_env(form)]
    folder = _folder(simple, world)
    places = [each for form in forms if form for each in _of_form(form, variables, effects, folder, branch)]
    reads = all(reads_only(form) for form in forms if form and _base(form[0]) in CLIENTS) and _is_client(forms)
    return Reach(tuple(dict.fromkeys(places)), reads)


def _reaches(effect):
    return effect.kind in REACHING or effect.loses or effect.at_code_host or effect.kind in ("start", "unknown")


def _is_client(forms):
    return any(form and _base(form[0]) in CLIENTS for form in forms)


def _base(text):
    return text.rpartition("/")[2]


def _text_of(word):
    return word.text if word is not None and word.literal else None


def _set_by_env(form):
    """Yield the variables that stand as words before a program: `env AWS_PROFILE=prod terraform apply`."""
    for text in form[1:10]:
        name, equals, value = text.partition("=")
        if equals and name in VARIABLES:
            yield name, None if OPAQUE in value else value


def _folder(simple, world):
    """Return the folder below the workspace that a command runs in; None if it is not certain."""
    if len(simple.cwds) != 1:
        return None
    root = (world.root or "").rstrip("/")
    return simple.cwds[0].removeprefix(root).strip("/")


def _of_form(form, variables, effects, folder, branch):
    """Return the destinations of one program with its words."""
    name, texts = _base(form[0]), form[1:]
    if name == "git":
        return _of_git(texts, effects, branch)
    if name in HTTP:
        return _of_requests(texts, effects)
    certain = any(effect.kind in REACHING or effect.loses or effect.at_code_host for effect in effects)
    act = acts.act_of(name, texts)
    hints = _hints(act, texts, variables, folder)
    if name not in CLIENTS:
        return _of_program(name, form, hints, effects, certain)
    if _is_local(name, act):
        return []
    named = [*_named(name, act, texts), *_by_variables(name, variables)]
    if name in CODE_HOSTS:
        merges = "merge" in act.operands[:2] or any(text.rstrip("/").endswith("/merge") for text in texts)
        named += [Name("host", CODE_HOSTS[name]), *([Name("branch")] if merges else [])]
        return [Destination(tuple(named))]
    if name in TERRAFORM | clients.INFRASTRUCTURE and folder:
        named.append(Name("terraform", folder))
    is_named = any(each.kind not in ("namespace",) for each in named)
    if not is_named:
        named += [Name(kind) for programs, kinds in UNNAMED if name in programs for kind in kinds]
    is_open = not is_named and name in clients.INFRASTRUCTURE | TERRAFORM and name not in KUBE
    return [Destination(tuple(dict.fromkeys(named)), hints, is_open)]


def _of_program(name, form, hints, effects, certain):
    """Return the destination of a script or a program in no table: where its words may say that it acts."""
    deploys = any(effect.held == "asks" and effect.kind == "start" for effect in effects)
    deploys = deploys and any(map(says_so, form[:4]))
    if deploys or certain:
        return [Destination((), hints, is_open=deploys)]
    return [Destination((), hints)] if name not in BUILDS and hints else []


def _is_local(name, act):
    """Return whether a client's command changes only its own settings here."""
    first = act.operands[:1]
    if name in ("kubectl", "oc", "aws", "gcloud", "az") and first in (["config"], ["configure"], ["completion"]):
        return True
    return name in TERRAFORM and first[0:1] in (["fmt"], ["validate"], ["version"])


def _named(name, act, texts):
    """Return the names that a client's words say."""
    found = []
    own = next((kinds for programs, kinds in KIND_FOR if name in programs), {})
    kinds = KIND_OF | {label: kind for programs, more in KIND_FOR if name in programs for label, kind in more.items()}
    for label, value in act.places:
        kind = own.get(label) or kinds.get(label)
        if kind == "host":
            found += of_address(value)
        elif kind:
            found.append(_name(kind, value.rstrip("/") if kind == "terraform" else value))
    if name in KUBE:
        found += [file for text in _values(texts, KUBECONFIG) for file in _kubeconfig(text)]
    if name in REMOTE_SHELLS:
        host = services.host_of_words(name, texts)
        found += [Name("host", host)] if host else []
    if name in DATABASES:
        found += _database(name, act, texts)
    return found + [each for text in texts if _is_address(name, text) for each in of_address(text)]


def _is_address(name, text):
    """Return whether a word is an address; buckets and files are none."""
    return "://" in text and not re.match(r"(?:--[\w-]+=)?(?:s3|gs|fileb?|oci)://", text)


def _values(texts, option):
    found = [after for text, after in itertools.pairwise(texts) if text == option]
    return found + [text.partition("=")[2] for text in texts if text.startswith(f"{option}=")]


def _name(kind, value):
    value = value.strip()
    return Name(kind, value if value and OPAQUE not in value and len(value) <= MAX_HINT else None)


def _kubeconfig(path):
    """Return the names of a kubeconfig file; one that an agent may have written is none to rely on."""
    if OPAQUE in path or ":" in path:
        return [Name("kube")]
    stem = _base(path).partition(".")[0] or _base(path)
    is_own = not path.startswith(("/", "~")) or path.startswith(("/workspace", "/tmp/"))
    return [Name("kube", stem), *([Name("kube")] if is_own else [])]


def of_address(text):
    """Return the host of an address, and the database that it names."""
    if OPAQUE in text:
        return [Name("host"), Name("db")]
    text = re.sub(r"^--?[\w-]+=", "", text)
    if "://" not in text:
        return [Name("host", text.rpartition("@")[2].partition(":")[0].lower() or None)]
    try:
        split = urlsplit(text)
        host = (split.hostname or "").rstrip(".")
    except ValueError:
        return [Name("host"), Name("db")]
    found = [Name("host", host)] if host else []
    if split.scheme in ("http", "https"):
        return found
    base = split.path.strip("/").partition("/")[0]
    return found + ([Name("db", base)] if base else [])


def _database(name, act, texts):
    """Return the names in the words of a database's client: `-hdb.prod`, `host=… dbname=…`, a first operand."""
    kinds = {"h": "host", "d": "db"}
    found = [_name(kinds[match[1]], match[2]) for text in texts if (match := ATTACHED.fullmatch(text))]
    for text in texts:
        pairs = PAIR.findall(text) if not re.search(r"\b(?:select|update|insert|delete)\b", text, re.I) else []
        found += [Name("db" if key == "dbname" else "host", value) for key, value in pairs]
    first = act.operands[:1]
    if first and name not in ("redis-cli", "sqlite3", "duckdb") and not re.search(r"[\s=]|://", first[0]):
        found.append(_name("db", first[0]))
    return found


def _by_variables(name, variables):
    found = []
    for variable, value in variables:
        kind = VARIABLES[variable]
        if value is None:
            found.append(Name(kind))
        elif variable == "KUBECONFIG":
            found += _kubeconfig(value)
        elif "://" in value:
            found += of_address(value)
        else:
            found.append(_name(kind, value))
    wanted = {kind for programs, kinds in UNNAMED if name in programs for kind in kinds}
    if name in TERRAFORM | clients.INFRASTRUCTURE:
        wanted |= {"aws", "gcloud", "azure", "terraform", "kube", "env"}
    return [each for each in found if each.kind in wanted or each.kind == "env"]


def _hints(act, texts, variables, folder):
    """Return further words that may say where a command acts: operands, values of options, the folder."""
    before = {after for text, after in itertools.pairwise(texts) if text in MODES}
    words = [*act.operands, *(value for _, value in [*act.places, *act.details]), *act.others, *act.flags]
    words += [text.partition("=")[2] for text in texts if "=" in text and not text.startswith(MODES)]
    words += [value for _, value in variables if value]
    words += [folder] if folder else []
    kept = (word for word in words if " " not in word and OPAQUE not in word and word not in before)
    return tuple(dict.fromkeys(word[:MAX_HINT] for word in kept if word))[:MAX_HINTS]


def _of_git(texts, effects, branch):
    """Return a destination for each branch that is pushed, and the host of a remote that is an address."""
    hosts = [Name("host", effect.target) for effect in effects if effect.kind == "network" and effect.target]
    found = []
    for effect in (effect for effect in effects if effect.kind == "push"):
        refs = [branch if ref in ("HEAD", "@") else _known_branch(ref) for ref in effect.more[:-1]] or [branch]
        if MANY_REFS & {text.partition("=")[0] for text in texts}:
            refs.append(None)
        found += [Destination((Name("branch", ref), *hosts)) for ref in refs]
    return found or ([Destination(tuple(hosts))] if hosts else [])


def _known_branch(ref):
    """Return the branch that a ref of a push means; None if that is not known, or if it means several."""
    return ref if ref and OPAQUE not in ref and "*" not in ref else None


def _of_requests(texts, effects):
    """Return a destination for each address of a client of HTTP."""
    found = []
    addresses = [text for text in texts if re.match(r"(?:https?://)?[\w.-]+\.[\w-]+(?:[:/?].*)?$|https?://", text)]
    for effect in effects:
        if effect.kind != "network":
            continue
        host = effect.target.rpartition(":")[0] if re.search(r":\d+$", effect.target) else effect.target
        paths = tuple(part for text in addresses if host and host in text for part in _path_of(text))
        found.append(Destination((Name("host", host or None),), (*paths, *_fields(texts))))
    return list(dict.fromkeys(found))


def _path_of(text):
    try:
        split = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError:
        return []
    return [each for each in (split.path.strip("/"), split.query) if each][:2]


def _fields(texts):
    """Return the values of fields in a request's body that say where something acts: `"environment": "staging"`."""
    pattern = r"""["']?(?:environment|env|stage|branch|database|target)["']?\s*(?:[:=]|:=)\s*["']?([\w./-]{1,60})"""
    return [posixpath.normpath(value) for text in texts for value in re.findall(pattern, text, re.IGNORECASE)]

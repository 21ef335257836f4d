"""Forms of clients and package managers that do their work on this machine: an envelope holds whatever they do.

Of most clients everything asks, since it is meant for another system, which no envelope reaches. These forms print
help, check or write files of the project, or look at what is installed. Where a call is not held, they ask as well.
"""

from ..shell_words import names
from ..verdict import Effect
from . import acts
from .verbs import operands_of

# Words that follow each other, with an option that has to be among the others: `create --dry-run=client`; behind `*`
# one that may stand with any words.
FORMS = """
    terraform|tofu : fmt | validate | version | graph | providers | metadata functions
    helm : lint | template | version | env | create | verify | completion | dependency list | plugin list | repo list
    kubectl|oc : kustomize | version --client | version --client=true | completion | options
    kubectl|oc : create --dry-run=client | run --dry-run=client | expose --dry-run=client
    ansible-playbook : * --syntax-check | * --list-tasks | * --list-hosts | * --list-tags | --version
    ansible|aws|gcloud|az|vercel|netlify|heroku|flyctl|wrangler|redis-cli|mongosh : --version | version | help
    wrangler : types | deploy --dry-run | d1 --local | kv --local | r2 --local | check
    vercel : build
    docker|podman : --version | -v | compose config | compose convert | compose version | buildx version
    gh|glab : --version | version | help | completion
    openssl : version | rand | x509 | req | dgst | verify | crl | pkcs7 | pkcs8 | pkcs12 | pkey | genrsa | genpkey | rsa
    openssl : ec | ecparam | dhparam | asn1parse | enc | base64 | sha256 | sha1 | md5 | passwd | prime | list | ciphers
    brew : list | ls | info | deps | uses | leaves | config | desc | cat | commands | --prefix | --cellar | --version
    apt|apt-get : list | show | policy | depends | rdepends | --version | install --simulate | install -s
    dnf|yum : list | info | repolist | provides | --version
    apk : info | list | policy | --version
    pacman : -Q | -Qi | -Ql | -Qs | -Qo | -Qe | --version
    conda : list | info | env list | --version
    nix : --version | eval --offline | fmt
    composer : validate | show | info | dump-autoload | dumpautoload | licenses | check-platform-reqs | depends | why
    composer : prohibits | why-not | run-script | run | exec | test | lint | format | analyse | analyze | phpstan
    composer : phpcs | cs-fix | fix | check | status | suggests | about | list | help | archive | bump | init
    composer : --version
    bundle : list | show | info | platform | licenses | doctor | version | gem | binstubs
    gem : which | specification | contents | environment | query | dependency | build | info --local
    pip|pip3 : list | show | freeze | check | inspect | debug | hash | cache dir | cache info | cache list
    uv : version | venv | init | export | python list | python find | python dir | cache dir | lock --check
    uv : sync --check
    uv : list | tree | show | freeze | check | pip list | pip show | pip tree | pip freeze | pip check
    poetry : show | version | build | env info | env list | lock --check | about | list | init | new | export
    pipenv : graph | --venv | --where | --version | verify | scripts | requirements
    npm|pnpm|yarn|bun : init | version | pack | query | rebuild | prune | dedupe | licenses | store path | cache ls
    npm|pnpm|yarn|bun : pkg set | pkg fix | patch | patch-commit | constraints | workspaces list | workspaces info
    cargo : package | metadata | locate-project | pkgid | verify-project | vendor --offline
"""
OFFLINE = {  # the option with which a package manager takes everything from its cache
    "npm": names("--offline"),
    "pnpm": names("--offline"),
    "yarn": names("--offline"),
    "cargo": names("--offline"),
    "uv": names("--offline"),
    "composer": names("--dry-run"),
    "bundle": names("--local"),
    "pip": names("--no-index"),
    "pip3": names("--no-index"),
}
INSTALLS = names("install i ci add update upgrade up sync lock remove rm uninstall fetch pip")
STARTS_OTHERS = names("run exec ssh sh shell x dlx debug plugin plugins extension attach start-session")


def _table():
    found = {}
    for line in filter(None, map(str.strip, FORMS.splitlines())):
        programs, _, forms = line.partition(" : ")
        for program in programs.split("|"):
            found.setdefault(program, []).extend(form.split() for form in forms.split(" | "))
    return found


TABLE = _table()
# Programs of which a call for help says something, and does not start another program with these words.
HELPED = frozenset(TABLE) | names("psql mysql supabase firebase railway fly stripe eas expo pulumi serverless sam cdk")


def effect_of(name, words):
    """Return the effect of a form that works on this machine, which an envelope holds; None for any other command."""
    texts = [word.text for word in words]
    if not (_asks_for_help(name, words, texts) or _is_local(name, words, texts)):
        return None
    shown = " ".join([name, *(text for text in texts[:2] if not text.startswith("-"))])[:60]
    title = acts.title(acts.act_of(name, texts), "")
    return Effect("unknown", f"runs {shown}, which works on this machine", "high", "unknown", title=title, held="runs")


def _asks_for_help(name, words, texts):
    if name not in HELPED or not words or not all(word.literal for word in words):
        return False
    *before, last = texts
    asks = last == "--help" or texts[:1] == ["help"]
    plain = all(text.isascii() and text.replace("-", "").replace(":", "").isalpha() for text in before)
    return asks and plain and len(before) <= 3 and not STARTS_OTHERS & {*before[:-1]}


def _is_local(name, words, texts):
    operands = operands_of(name, texts)
    forms = TABLE.get(name, ())
    if any(texts[:1] == form for form in forms if form[0].startswith("-")) and words[0].literal:
        return True
    everywhere = [form[1] for form in forms if form[0] == "*"]
    if any(option in texts for option in everywhere) and all(word.literal for word in words):
        return True
    if not operands:
        return False
    if operands[0] in INSTALLS and OFFLINE.get(name, frozenset()) & {*texts} and _certain(words, operands[:1]):
        return True
    for form in (form for form in forms if form[0][0] not in "-*"):
        path = [word for word in form if not word.startswith("-")]
        options = {word for word in form if word.startswith("-")}
        if operands[: len(path)] == path and options <= {*texts} and _certain(words, [*path, *options]):
            return True
    return False


def _certain(words, named):
    """Return True if these words are written as they are, and no unknown word before the last of them is."""
    at = max(index for index, word in enumerate(words) if word.text in named) if named else 0
    return all(word.literal for word in words[: at + 1])

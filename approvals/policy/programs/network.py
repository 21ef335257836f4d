"""Clients of services, and other programs that contact other machines."""

import re
from dataclasses import replace

from .. import impacts
from ..opens import everything_below
from ..shell_words import Word
from . import code_host, services
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles, kind
from .verbs import operands_of

SERVICES = parse_table(
    """
    kubectl get : -n=text -A -l=text -o=shape -w -L=text --namespace=text --all-namespaces --selector=text
        --output=shape
        --field-selector=text --show-labels --sort-by=text --no-headers --watch --chunk-size=num
        --ignore-not-found --show-kind --label-columns=text : resource*
    kubectl describe|kubectl logs|kubectl top|kubectl explain : -n=text -A -l=text -f -c=text -p --namespace=text
        --all-namespaces --selector=text --tail=num --since=text --follow --container=text --previous --timestamps
        --all-containers --recursive --prefix : resource*
    kubectl version|kubectl cluster-info|kubectl api-resources|kubectl api-versions : --client --short
        -o=shape --output=shape :
    docker ps|docker images|docker volume ls|docker network ls|docker image ls|docker container ls : -a -q -s -n=num
        --all --quiet --no-trunc --size --latest -l --filter=text -f=text --format=text --last=num --digests : text*
    docker logs : -f -t -n=text --tail=text --since=text --until=text --timestamps --follow --details : text
    docker inspect|docker image inspect|docker container inspect|docker network inspect|docker volume inspect
        : -s -f=text
        --format=text --size --type=text : text*
    docker version|docker info : -f=text --format=text :
    docker stats|docker top|docker port|docker diff|docker history|docker events : --no-stream --no-trunc --format=text
        -a -q --since=text --until=text -H : text*
    docker compose ps|docker compose logs|docker compose config|docker compose ls : -a -q -f --follow --tail=text
        --services --format=text --all --no-color --no-log-prefix -t --timestamps --status=text : text*
    gh pr list|gh issue list|gh run list|gh release list|gh repo list|gh workflow list|gh label list : -s=text -L=num
        -l=text -a=text -A=text -S=text -B=text -H=text -w=text -b=text -R=repo --state=text --limit=num --label=text
        --assignee=text --author=text --search=text --json=text -q=text --jq=text --base=text --head=text --repo=repo
        --workflow=text --branch=text --status=text -t=text --template=text --draft : text*
    gh pr view|gh pr diff|gh pr checks|gh pr status|gh issue view|gh issue status|gh run view|gh repo view
        |gh release view|gh workflow view|gh run watch : -c --comments -R=repo --repo=repo --json=text
        -q=text --jq=text --log --log-failed --name-only --patch
        --watch --required --job=text -j=text --exit-status -t=text --template=text --color=text : reference*
    gh search code|gh search issues|gh search prs|gh search repos|gh search commits : --json=text -L=num --limit=num
        -q=text --jq=text --repo=text -R=text --owner=text --state=text --label=text --author=text --language=text
        --sort=text --order=text : text*
    gh auth status|gh status|gh --version|gh version|gh help : : text*
    """,
    "reads",
)
GH_API = parse_table(
    "api : -X=method --method=method -q=text --jq=text -t=text --template=text -H=header --header=header --paginate"
    " --cache=text -i --include --slurp --silent --preview=text -p=text : endpoint",
    "reads",
)["api"]
RAW = ("rsync", "scp", "sftp", "ssh", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "lftp", "aws", "gcloud", "az")
RAW += (
    "psql",
    "mysql",
    "redis-cli",
    "mongosh",
    "dig",
    "twine",
    "nslookup",
    "host",
    "ping",
    "traceroute",
    "openssl",
    "mail",
    "sendmail",
)
RAW += ("helm", "terraform", "tofu", "ansible", "ansible-playbook", "flyctl", "vercel", "netlify", "heroku", "wrangler")
# Options of rsync with which it may leave the machine, or reads what its words do not say.
REMOTE_SHELL = re.compile(r"-[A-Za-z]*e|--(?:rsh|rsync-path|daemon|server|address|port|sockopts|config|password-file)")
DESTROYS = {("terraform", "destroy"), ("tofu", "destroy"), ("helm", "uninstall"), ("gh", "repo")}


@kind("shape")
def shape(word, name, judge):
    plain = r"json|yaml|wide|name|jsonpath=.*|custom-columns=.*|go-template=.*|table"
    return [] if re.fullmatch(plain, word.text, re.DOTALL) else [impacts.unknown("reads its output format from a file")]


@kind("resource")
def resource(word, name, judge):
    if re.search(r"(?:^|[,/.])secrets?(?:[,/.]|$)", word.text, re.IGNORECASE) or word.glob or word.opaque:
        return [impacts.unknown(f"shows {word.text[:40]} of the cluster, where secrets are kept", held="asks")]
    return []


@kind("repo")
def repo(word, name, judge):
    plain = re.fullmatch(r"(?:github\.com/)?[\w.-]+/[\w.-]+", word.text)
    return [] if plain else [impacts.unknown("names another host")]


@kind("reference")
def reference(word, name, judge):
    """Judge a reference: a number, a branch or owner/name is on the service itself, an address is another host."""
    if "://" in word.text or word.opaque:
        return [impacts.contacts(word.text)]
    return (
        [impacts.unknown("names another host")] if word.text.count("/") > 1 and "." in word.text.split("/")[0] else []
    )


@kind("endpoint")
def endpoint(word, name, judge):
    if "://" in word.text or word.opaque or word.text.startswith("//"):
        return [impacts.contacts(word.text)]
    return [impacts.remote("sends a query that can change things", (word.text,))] if word.text == "graphql" else []


@handles("kubectl", "docker", "gh", "podman")
def service(name, words, simple, judge):
    """Judge a service's client: read-only forms are known by table, all others change what no snapshot restores."""
    if name == "gh" and [word.text for word in words] in (["--version"], ["version"], ["help"], ["--help"]):
        return []
    found = _service(name, words, judge)
    if name == "gh" and not simple.assigns and code_host.reads(name, words):
        return [replace(effect, at_code_host=True) for effect in found]
    return found


@handles("glab")
def glab(name, words, simple, judge):
    if words and code_host.reads(name, words) and not simple.assigns:
        says = f"reads from GitLab (glab {words[0].text[:20]})"
        return [impacts.Effect("network", says, "high", "yes", spelled=(words[0].text,), at_code_host=True)]
    effect = impacts.unknown("runs glab in a form that may change something at the code host", held="asks")
    return [replace(effect, title=services.code_host_title(name, operands_of(name, [w.text for w in words]) or []))]


def _service(name, words, judge):
    texts = [name.replace("podman", "docker"), *(word.text for word in words)]
    if texts[:2] == ["gh", "api"]:
        return _gh_api(words[1:], judge)
    for length in (3, 2):
        grammar = SERVICES.get(" ".join(texts[:length]))
        if grammar:
            arguments, problems = read_arguments(grammar, words[length - 1 :])
            found = [impacts.unknown(says) for says, word in problems]
            for argument in arguments:
                found += argument_effects(argument, name, judge)
            says = _reads_from(texts[:length])
            if name in ("docker", "podman"):
                return [*found, impacts.Effect("run", says, "medium", held="asks")]
            return [*found, impacts.Effect("network", says, "high", "yes", spelled=tuple(texts[1:length]))]
    return [_service_change(name, words)]


def _reads_from(texts):
    places = {"gh": "GitHub", "kubectl": "the cluster", "docker": "Docker"}
    return f"reads from {places[texts[0]]} ({' '.join(texts)})"


def _service_change(name, words):
    """Return the effect of a command in no table; a rule covers it only by spelling out every word."""
    program, spelled = name.replace("podman", "docker"), tuple(word.text for word in words)
    operands = operands_of(name, spelled)
    if not operands or any("\ufffc" in text for text in operands[:1]):
        return impacts.unknown(f"couldn't tell which {name} command this is", held="asks")
    for length in (2, 1):
        if " ".join([program, *operands[:length]]) in SERVICES:
            says = _reads_from([program, *operands[:length]])
            return impacts.Effect("network", says, "high", "unknown", spelled=spelled)
    verbs = [text for text in operands if re.fullmatch(r"[a-z][a-z-]*", text)][:2]
    destroys = (name, verbs[0] if verbs else "") in DESTROYS and (name != "gh" or verbs[-1] == "delete")
    tier = "critical" if destroys else "high"
    shown = " ".join([name, *operands[: 2 if program == "docker" and operands[0] == "compose" else 1]])
    if operands[:2] == ["pr", "checkout"]:
        says, title = "fetches the branch of a pull request", services.code_host_title(name, operands)
        return impacts.Effect("network", says, tier, "yes", spelled=spelled, title=title)
    if name == "gh":
        return impacts.remote(
            f"runs gh {' '.join(verbs)}", spelled, tier, title=services.code_host_title(name, operands)
        )
    if program == "docker" and operands[0] not in ("push", "pull", "login", "logout"):
        says = f"runs {shown}, which can change this machine"
        return impacts.Effect("harmful", says, tier, "unknown", spelled=spelled)
    return impacts.remote(f"runs {shown}", spelled, tier)


def _gh_api(words, judge):
    arguments, problems = read_arguments(GH_API, words)
    found = [impacts.unknown(says) for says, word in problems]
    for argument in arguments:
        found += argument_effects(argument, "gh", judge)
    if code_host.reads("gh", [Word("api"), *words]):
        says, undo = "reads from GitHub (gh api)", "yes"
    else:
        says, undo = "asks or changes GitHub through gh api", "no"
    return [*found, impacts.Effect("network", says, "high", undo, spelled=("api",))]


@handles(*RAW)
def raw(name, words, simple, judge):
    texts = [word.text for word in words]
    verb = (operands_of(name, texts) or [t for t in texts if not t.startswith("-")] or [""])[0]
    if [word.text for word in words] in (["--version"], ["-V"], ["version"]):
        return []
    tier = "critical" if (name, verb) in DESTROYS else "high"
    if name == "rsync" and not any(":" in text for text in texts if not text.startswith("-")):
        connects = services.connects(name, texts, tier)
        if not any(map(REMOTE_SHELL.match, texts)) and all(word.literal for word in words):
            connects = replace(connects, kind="unknown", says="copies with rsync", held="runs")
        return [connects, *_copied_below(words, judge)]
    return [services.connects(name, texts, tier, simple, judge)]


def _copied_below(words, judge):
    """Return the effects of a local rsync on its last operand, whose content it replaces, or with --delete removes."""
    goal = [word for word in words if not word.text.startswith("-")][-1:]
    deletes = any(word.text.startswith("--del") for word in words)
    found = []
    for effect in (effect for word in goal for effect in judge.writes(word)):
        below = everything_below(effect.place.lexical) if effect.place is not None else ()
        found.append(replace(effect, opens=(*below, *(place.lexical for place in (effect.place,) if place))))
        found += [replace(effect, opens=below, moves=True)] if deletes else []
    return found

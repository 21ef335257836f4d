"""Programs that talk to other machines: curl and wget name their host, the rest name a service."""

import re

from .. import effects
from ..web import BadAddress, parts_of
from ..words import names
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles, kind

OPTIONS = parse_table(
    """
    curl : -s -S -f -i -I -v -g -# -4 -6 -N -m=num --silent --show-error --fail --include --head --verbose --globoff
        --compressed --max-time=num --connect-timeout=num --retry=num --retry-delay=num --no-progress-meter
        --http1.1 --http2 --no-buffer --fail-with-body --progress-bar -A=text --user-agent=text -e=text --referer=text
        -H=header --header=header -o=out --output=out -w=report --write-out=report -X=method --request=method
        -d=body --data=body --data-raw=text --data-binary=body --data-urlencode=body --json=body -F=body --form=body
        -G --get --url=url -L --location -u=text --user=text -T=upload --upload-file=upload -k --insecure : url*
    wget : -q -nv -S -O=out --quiet --no-verbose --spider --server-response --output-document=out --timeout=num
        -T=num --tries=num -t=num --method=method -U=text --user-agent=text --header=header : url*
    """,
    "reads",
)
BODIES = names("-d --data --data-raw --data-binary --data-urlencode --json -F --form -T --upload-file")
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
DESTROYS = {("terraform", "destroy"), ("tofu", "destroy"), ("helm", "uninstall"), ("gh", "repo")}


@handles("curl", "wget")
def fetch(name, words, simple, judge):
    grammar = OPTIONS[name]
    arguments, problems = read_arguments(grammar, words)
    found = [effects.unknown(says) for says, word in problems]
    sends = [a.option for a in arguments if a.option in BODIES]
    flags = {word.text for word in words}
    for argument in arguments:
        found += argument_effects(argument, name, judge)
    if sends and not flags & {"-G", "--get"}:
        found.append(effects.remote("sends data", tuple(sends)))
    if flags & {"-L", "--location"} or any(re.fullmatch(r"-[a-zA-Z]*L[a-zA-Z]*", flag) for flag in flags):
        found.append(effects.unknown("follows redirects to hosts that are not known before it runs"))
    if any(re.fullmatch(r"-[a-zA-Z]*k[a-zA-Z]*|--insecure", flag) for flag in flags):
        found.append(effects.unknown("does not check who answers (no certificate check)"))
    if name == "wget" and not any(a.kind == "out" for a in arguments) and "--spider" not in flags:
        found.append(effects.Effect("write", "writes a file named by the address", "high", "yes"))
    if not any(a.kind == "url" for a in arguments):
        found.append(effects.unknown("names no address"))
    return found


@kind("url")
def url(word, name, judge):
    if word.opaque or word.splits:
        return [effects.Effect("network", "contacts an address that is not known before it runs", "high", "no")]
    try:
        parts_of(word.text if "://" in word.text else f"http://{word.text}")
    except BadAddress:
        pass
    return [effects.contacts(word.text)]


@kind("header")
def header(word, name, judge):
    return judge.reads(type(word)(word.text[1:])) if word.text.startswith("@") else []


@kind("body")
def body(word, name, judge):
    """`@name` and `field=@name` send a file."""
    file = re.match(r"(?:[^=@]*=)?[@<](.+)", word.text)
    if word.opaque:
        return [effects.unknown("sends text that is not known before it runs")]
    return [effects.unknown(f"sends the file {file[1][:60]}"), *judge.reads(type(word)(file[1]))] if file else []


@kind("upload")
def upload(word, name, judge):
    return [effects.unknown(f"sends the file {word.text[:60]}"), *judge.reads(word)]


@kind("report")
def report(word, name, judge):
    if re.search(r"%output\{|^@", word.text):
        return [effects.unknown("writes or reads a file through its report format")]
    return []


@kind("method")
def method(word, name, judge):
    if word.text.upper() in ("GET", "HEAD", "OPTIONS"):
        return []
    return [effects.remote(f"sends a {word.text[:20]} request", (word.text,))]


@kind("shape")
def shape(word, name, judge):
    plain = r"json|yaml|wide|name|jsonpath=.*|custom-columns=.*|go-template=.*|table"
    return [] if re.fullmatch(plain, word.text, re.DOTALL) else [effects.unknown("reads its output format from a file")]


@kind("resource")
def resource(word, name, judge):
    if re.search(r"(?:^|[,/.])secrets?(?:[,/.]|$)", word.text, re.IGNORECASE) or word.glob or word.opaque:
        return [effects.unknown(f"shows {word.text[:40]} of the cluster, where secrets are kept")]
    return []


@kind("repo")
def repo(word, name, judge):
    plain = re.fullmatch(r"(?:github\.com/)?[\w.-]+/[\w.-]+", word.text)
    return [] if plain else [effects.unknown("names another host")]


@kind("reference")
def reference(word, name, judge):
    """A number, a branch or owner/name; an address is a host of its own."""
    if "://" in word.text or word.opaque:
        return [effects.contacts(word.text)]
    return (
        [effects.unknown("names another host")] if word.text.count("/") > 1 and "." in word.text.split("/")[0] else []
    )


@kind("endpoint")
def endpoint(word, name, judge):
    if "://" in word.text or word.opaque or word.text.startswith("//"):
        return [effects.contacts(word.text)]
    return [effects.remote("sends a query that can change things", (word.text,))] if word.text == "graphql" else []


@handles("kubectl", "docker", "gh", "podman")
def service(name, words, simple, judge):
    """Reading forms are known by table; all others change something that no snapshot brings back."""
    texts = [name.replace("podman", "docker"), *(word.text for word in words)]
    if texts[:2] == ["gh", "api"]:
        return _gh_api(words[1:], judge)
    for length in (3, 2):
        grammar = SERVICES.get(" ".join(texts[:length]))
        if grammar:
            arguments, problems = read_arguments(grammar, words[length - 1 :])
            found = [effects.unknown(says) for says, word in problems]
            for argument in arguments:
                found += argument_effects(argument, name, judge)
            says = f"asks {name} ({' '.join(texts[1:length])})"
            if name in ("docker", "podman"):
                return [*found, effects.Effect("run", f"{says}, a service of this machine", "medium")]
            return [*found, effects.Effect("network", says, "high", "yes", spelled=tuple(texts[1:length]))]
    return [_service_change(name, words)]


def _service_change(name, words):
    verbs = [word.text for word in words if re.fullmatch(r"[a-z][a-z-]*", word.text)][:2]
    if any(word.text.startswith("-") for word in words[:1]) or not verbs:
        return effects.unknown(f"uses {name} with options before its verb")
    destroys = (name, verbs[0]) in DESTROYS and (name != "gh" or verbs[-1] == "delete")
    says = f"changes something with {name} {' '.join(verbs)}"
    return effects.remote(says, tuple(word.text for word in words), "critical" if destroys else "high")


def _gh_api(words, judge):
    arguments, problems = read_arguments(GH_API, words)
    found = [effects.unknown(says) for says, word in problems]
    for argument in arguments:
        found += argument_effects(argument, "gh", judge)
    return [*found, effects.Effect("network", "asks GitHub's API", "high", "yes", spelled=("api",))]


@handles(*RAW)
def raw(name, words, simple, judge):
    verb = next((word.text for word in words if not word.text.startswith("-")), "")
    if [word.text for word in words] in (["--version"], ["-V"], ["version"]):
        return []
    tier = "critical" if (name, verb) in DESTROYS else "high"
    return [effects.Effect("remote", f"talks to other machines with {name}", tier, "no", target=verb[:80])]

"""Programs that contact other machines: curl and wget name their host, the others name a service."""

import re
from dataclasses import replace

from .. import impacts
from ..opens import everything_below
from ..shell_words import Word, names
from ..web import BadAddress, is_loopback, parts_of
from . import code_host, services
from .acts import PRODUCTION
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles, kind
from .text_titles import address_shown, amounts_in
from .verbs import operands_of

OPTIONS = parse_table(
    """
    curl : -s -S -f -i -I -v -g -# -4 -6 -N -m=num --silent --show-error --fail --include --head --verbose --globoff
        --compressed --max-time=num --connect-timeout=num --retry=num --retry-delay=num --no-progress-meter
        --http1.1 --http2 --no-buffer --fail-with-body --progress-bar -A=text --user-agent=text -e=text --referer=text
        -H=header --header=header -o=out --output=out -w=report --write-out=report -X=method --request=method
        --proto=text --proto-redir=text --proto-default=text --tlsv1.2 --tlsv1.3 --tls-max=text --ciphers=text
        --retry-all-errors --retry-connrefused --retry-max-time=num --limit-rate=text --max-redirs=num -r=text
        --range=text --max-filesize=text --speed-limit=num --speed-time=num --ssl-reqd
        -x=odd --proxy=odd -b=odd --cookie=odd -c=odd --cookie-jar=odd --cacert=odd -E=odd --cert=odd --key=odd
        --resolve=odd --connect-to=odd --interface=odd -K=odd --config=odd --output-dir=odd --netrc-file=odd
        --unix-socket=odd -C=odd --continue-at=odd -z=odd --time-cond=odd --dns-servers=odd --capath=odd
        -d=body --data=body --data-raw=text --data-binary=body --data-urlencode=body --json=body -F=body --form=body
        -G --get --url=url -L --location -u=text --user=text -T=upload --upload-file=upload -k --insecure : url*
    wget : -q -nv -S -O=out --quiet --no-verbose --spider --server-response --output-document=out --timeout=num
        -T=num --tries=num -t=num --method=method -U=text --user-agent=text --header=header
        --post-data=text --body-data=text --post-file=upload --body-file=upload : url*
    """,
    "reads",
)
ENGINE_PORTS = (2375, 2376, 2377, 10250)  # where container engines listen, which are root on this machine
BODIES = names(
    "-d --data --data-raw --data-binary --data-urlencode --json -F --form -T --upload-file"
    " --post-data --body-data --post-file --body-file"
)
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
    found = [impacts.unknown(says) for says, word in problems]
    sends = [a.option for a in arguments if a.option in BODIES]
    flags = {word.text for word in words}
    for argument in arguments:
        found += argument_effects(argument, name, judge)
    found = [_sends(e.says, found, e.spelled) if e.kind == "remote" else e for e in found]
    if sends and not flags & {"-G", "--get"}:
        found.append(_sends("sends data", found, tuple(sends)))
    found = [_to_address(effect, arguments) if effect.kind == "remote" else effect for effect in found]
    if flags & {"-L", "--location"} or any(re.fullmatch(r"-[a-zA-Z]*L[a-zA-Z]*", flag) for flag in flags):
        found.append(impacts.unknown("follows redirects to hosts that are unknown until it runs"))
    if any(re.fullmatch(r"-[a-zA-Z]*k[a-zA-Z]*|--insecure", flag) for flag in flags):
        found.append(impacts.unknown("does not check who answers (no certificate check)", held="asks"))
    if name == "wget" and not any(a.kind == "out" for a in arguments) and "--spider" not in flags:
        found.append(impacts.Effect("write", "writes a file named by the address", "high", "yes", held="runs"))
    if not any(a.kind == "url" for a in arguments):
        found.append(impacts.unknown("names no address"))
    return [_at_home(effect) for effect in found]


def _at_home(effect):
    """Let requests to a server of this machine run in the first mode; what they send is an effect of its own."""
    port = effect.target.rpartition(":")[2]
    own = effect.kind == "network" and is_loopback(effect.target) and port.isdecimal()
    return replace(effect, tier="medium") if own and int(port) >= 1024 and int(port) not in ENGINE_PORTS else effect


def _to_address(effect, arguments):
    """Return the effect of a request under a headline with the whole address, if the command names only one."""
    named = [a.word.text for a in arguments if a.kind == "url" and not a.word.opaque]
    where = address_shown(named[0]) if len(named) == 1 else ""
    said = effect.says.removesuffix(f" to {effect.target}") if effect.target else effect.says
    deletes = any(a.kind == "method" and a.word.text.upper() == "DELETE" for a in arguments)
    more = amounts_in(a.word.text for a in arguments if a.option in BODIES and not a.word.opaque)
    more += " in production" if PRODUCTION.search(where) else ""
    title = f"S{said[1:].replace('ends', 'end', 1)} to {where}{more}" if where and said[:5] == "sends" else ""
    return replace(effect, title=title or effect.title, loses=deletes)


def _sends(says, found, spelled):
    """Return the effect of sending data, to the host that the command contacts if there is exactly one."""
    hosts = {e.target for e in found if e.kind == "network"}
    host = hosts.pop() if len(hosts) == 1 else ""
    return impacts.remote(f"{says} to {host}" if host else says, spelled, host=host)


@kind("url")
def url(word, name, judge):
    if word.opaque or word.splits:
        says = "contacts an address that is unknown until it runs"
        return [impacts.Effect("network", says, "high", "no", held="runs")]
    try:
        parts_of(word.text if "://" in word.text else f"http://{word.text}")
    except BadAddress:
        pass
    return [impacts.contacts(word.text)]


@kind("odd")
def odd_option(word, name, judge):
    """Judge the value of an option that can change where a request goes, or what else is read and written."""
    return [impacts.unknown(f"uses an option of {name} that can change what it does")]


@kind("header")
def header(word, name, judge):
    return judge.reads(type(word)(word.text[1:])) if word.text.startswith("@") else []


@kind("body")
def body(word, name, judge):
    """Return effects of a request body; `@name` and `field=@name` send a file."""
    file = re.match(r"(?:[^=@]*=)?[@<](.+)", word.text)
    if word.opaque:
        return [impacts.unknown("sends text that is unknown until it runs")]
    return [impacts.unknown(f"sends the file {file[1][:60]}"), *judge.reads(type(word)(file[1]))] if file else []


@kind("upload")
def upload(word, name, judge):
    return [impacts.unknown(f"sends the file {word.text[:60]}"), *judge.reads(word)]


@kind("report")
def report(word, name, judge):
    if re.search(r"%output\{|^@", word.text):
        return [impacts.unknown("writes or reads a file through its report format")]
    return []


@kind("method")
def method(word, name, judge):
    if word.text.upper() in ("GET", "HEAD", "OPTIONS"):
        return []
    return [impacts.remote(f"sends a {word.text[:20]} request", (word.text,))]


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
        return [services.connects(name, texts, tier), *_copied_below(words, judge)]
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

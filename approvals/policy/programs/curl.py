"""curl and wget, which name their host, and what they send there."""

import re
from dataclasses import replace

from .. import impacts
from ..shell_words import names
from ..web import BadAddress, is_loopback, parts_of
from .acts import PRODUCTION
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles, kind
from .text_titles import address_shown, amounts_in

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

"""Evidence for network requests: host, method, and how much is sent."""

from urllib.parse import urlsplit

from approvals.evaluation.calls import beneath
from dashboard.problems import Problem

from .argv import after, is_known, parse
from .findings import UNKNOWN, Finding

DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "--post-data")
DATA += ("--body-data",)
FORMS = ("-F", "--form", "--form-string")
FILES = ("-T", "--upload-file", "--post-file", "--body-file")
METHOD = ("-X", "--request", "--method")
OTHERS = {  # options that take a value and do not determine what is sent
    "curl": """
        -o --output -H --header -u --user -A --user-agent -e --referer -b --cookie -c --cookie-jar -K --config -m
        --max-time -w --write-out -x --proxy --url --connect-timeout --retry --cacert --cert --key -r --range -y -Y -z
        --resolve
    """,
    "wget": "-O -o -a -P -U -t -T -w -Q -e -i --input-file --header --output-document --user --password",
}
WITH_VALUE = {program: (*DATA, *FILES, *FORMS, *METHOD, *text.split()) for program, text in OTHERS.items()}
PLAIN = ("--data-raw", "--post-data", "--body-data", "--form-string")


def contact(place, step: dict) -> Finding:
    """Return what a sub-command sends over the network: parsed for curl and wget, else only the hosts."""
    finding = Finding(step["line"], step["text"], [])
    found = after(step["words"], ("curl", "wget"))
    if found is None:
        hosts = [host for host in step["names"] if is_known(host)]
        finding.says.append(
            f"Contacts {', '.join(hosts)}. What it sends is unknown until it runs." if hosts else UNKNOWN
        )
        return finding
    program, words = found
    parsed = parse(words, WITH_VALUE[program])
    addresses = [*parsed.operands, *parsed.values("--url")]
    for address in [a for a in addresses if is_known(a)][:5]:
        finding.says.append(f"{_method(program, parsed)} to {host_of(address)}.")
    if not all(map(is_known, addresses)) or not addresses or parsed.has("-K", "--config", "-i", "--input-file"):
        finding.says.append("Contacts other hosts, unknown until it runs.")
    finding.says += _sent(place, step, parsed, program)
    return finding


def fetch(arguments: dict, text: str) -> Finding:
    """Return the evidence for a WebFetch call."""
    url = arguments.get("url")
    if not isinstance(url, str):
        return Finding(1, text, [UNKNOWN])
    return Finding(1, text, [f"GET to {host_of(url)}.", f"Sends the URL ({len(url):,} characters)."])


def host_of(address: str) -> str:
    """Return the host of a URL, with or without a scheme; the text itself if it has none."""
    try:
        return urlsplit(address if "://" in address else f"http://{address}").hostname or address
    except ValueError:
        return address


def _method(program: str, parsed) -> str:
    if chosen := parsed.values(*METHOD):
        return chosen[-1].upper() if is_known(chosen[-1]) else "An unknown method"
    if program == "curl" and parsed.has("-T", "--upload-file"):
        return "PUT"
    if parsed.has("-I", "--head"):
        return "HEAD"
    sends = parsed.has(*DATA, *FORMS, "--post-file") and not parsed.has("-G", "--get")
    return "POST" if sends else "GET"


def _sent(place, step: dict, parsed, program: str) -> list[str]:
    literal, files, unknown = 0, [], False
    for name, value in parsed.options:
        if value is None or name not in (*DATA, *FORMS, *FILES) or (program == "wget" and name == "-T"):
            continue
        text = value.partition("=")[2] if name in ("-F", "--form") else value
        if not is_known(value):
            unknown = True
        elif name in FILES:
            files.append(value)
        elif name not in PLAIN and text.startswith(("@", "<")):
            files.append(text[1:].partition(";")[0])
        else:
            literal += len(value.encode("utf-8", "surrogatepass"))
    said = [f"Sends {literal:,} byte{'' if literal == 1 else 's'} from the command line."] if literal else []
    said += [_sentence_on_file(place, step, path) for path in files]
    return [*said, "Sends more data, unknown until it runs."] if unknown else said


def _sentence_on_file(place, step: dict, path: str) -> str:
    if path == "-":
        return "Sends the output of another command, unknown until it runs."
    relative = beneath(path, step["cwd"], place.root) if place and step.get("cwd") else None
    if relative is None:
        return f"Sends the file {path}, which is outside the workspace."
    try:
        told = place.ask("tree-stats", {"patterns": [relative]})
    except Problem:
        return f"Sends the file {path} (size unknown)."
    if not told["matches"]:
        return f"Sends the file {path}, which does not exist now."
    return f"Sends the file {path}, {told['bytes']:,} bytes now."

"""What would be sent where: the host, the method, and how much."""

from urllib.parse import urlsplit

from approvals.calls import beneath
from dashboard.problems import Problem

from .findings import UNKNOWN, Finding
from .words import after, is_known, parse

DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "--post-data")
DATA += ("--body-data",)
FORMS = ("-F", "--form", "--form-string")
FILES = ("-T", "--upload-file", "--post-file", "--body-file")
METHOD = ("-X", "--request", "--method")
OTHERS = {  # options that take a word and say nothing of what is sent
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
    finding = Finding(step["line"], step["text"], [])
    found = after(step["words"], ("curl", "wget"))
    if found is None:
        hosts = [target for target in step["targets"] if is_known(target)]
        finding.says.append(f"Contacts {', '.join(hosts)}. What it sends: {UNKNOWN.lower()}" if hosts else UNKNOWN)
        return finding
    program, words = found
    parsed = parse(words, WITH_VALUE[program])
    addresses = [*parsed.operands, *parsed.values("--url")]
    for address in [a for a in addresses if is_known(a)][:5]:
        finding.says.append(f"{_method(program, parsed)} to {host_of(address)}.")
    if not all(map(is_known, addresses)) or not addresses or parsed.has("-K", "--config", "-i", "--input-file"):
        finding.says.append("Contacts more that is not known before it runs.")
    finding.says += _sent(place, step, parsed, program)
    return finding


def fetch(arguments: dict, text: str) -> Finding:
    url = arguments.get("url")
    if not isinstance(url, str):
        return Finding(1, text, [UNKNOWN])
    return Finding(1, text, [f"GET to {host_of(url)}.", f"Sends the address, {len(url):,} characters."])


def host_of(address: str) -> str:
    try:
        return urlsplit(address if "://" in address else f"http://{address}").hostname or address
    except ValueError:
        return address


def _method(program: str, parsed) -> str:
    if chosen := parsed.values(*METHOD):
        return chosen[-1].upper() if is_known(chosen[-1]) else "A method not known before it runs"
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
    said = [f"Sends {literal:,} byte{'' if literal == 1 else 's'} that stand in the command."] if literal else []
    said += [_file_says(place, step, path) for path in files]
    return [*said, "Sends more that is not known before it runs."] if unknown else said


def _file_says(place, step: dict, path: str) -> str:
    if path == "-":
        return "Sends what another command prints, not known before it runs."
    relative = beneath(path, step["cwd"], place.root) if place and step.get("cwd") else None
    if relative is None:
        return f"Sends the file {path}, which is outside the workspace."
    try:
        told = place.ask("weight", {"patterns": [relative]})
    except Problem:
        return f"Sends the file {path}; how long it is cannot be read now."
    if not told["matches"]:
        return f"Sends the file {path}, which is not there now."
    return f"Sends the file {path}, {told['bytes']:,} bytes now."

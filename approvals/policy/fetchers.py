"""Programs that bring text or files from other machines: what they print, and which files or folders they write."""

import posixpath
import re
from dataclasses import dataclass

from .shell_words import OPAQUE, names
from .web import host_of

SOMEWHERE = "the network"  # stands for a host that the words do not name
# Programs that print what they fetch unless an option names a file: {name: (options with the file's name, options with
# its folder, options that name it after the address)}.
ADDRESSED = {
    "curl": ("-o --output", "--output-dir", "-O -J -OJ --remote-name --remote-name-all --remote-header-name"),
    "wget": ("-O --output-document", "-P --directory-prefix", "*"),
    "wget2": ("-O --output-document", "-P --directory-prefix", "*"),
    "aria2c": ("-o --out", "-d --dir", "*"),
    "axel": ("-o --output", "", "*"),
    "fetch": ("-o", "", "*"),
    "http": ("-o --output", "", "-d --download"),
    "https": ("-o --output", "", "-d --download"),
    "httpie": ("-o --output", "", "-d --download"),
    "xh": ("-o --output", "", "-d --download"),
    "xhs": ("-o --output", "", "-d --download"),
    "curlie": ("-o --output", "", "-O"),
    "ftp": ("-o", "", "*"),
    "lwp-download": ("", "", "*"),
    "gh": ("-O -o --output", "-D --dir", "--archive -p --pattern"),
}
ADDRESSED = {name: tuple(names(text) for text in row) for name, row in ADDRESSED.items()}
# Programs that copy from another machine: the last operand is the target, a dash is their output.
# Letters of further options that take a value.
VALUED_LETTERS = {"curl": "AbcCdDeEFHKmPQrtTuUwxXyYz", "wget": "aeiBtTwQUlADIRX", "wget2": "aeiBtTwQUlADIRX"}
COPIERS = names("scp rsync sftp aws gsutil gcloud az rclone mc s3cmd s5cmd b2 tftp lftp smbclient glab hf azcopy")
# Programs that print what another machine says.
PRINTERS = names(
    "nc ncat netcat socat telnet ssh lynx links links2 elinks w3m dig nslookup host drill kdig openssl lwp-request"
    " websocat grpcurl GET HEAD invoke-webrequest invoke-restmethod iwr irm"
)
CLONERS = {"git": ("clone",), "hg": ("clone",), "svn": ("checkout", "co", "export"), "gh": ("repo",), "jj": ("git",)}
CLONERS |= {"sl": ("clone",), "fossil": ("clone",), "bzr": ("branch",), "brz": ("branch",), "glab": ("repo",)}
OWNERS = {"gh": "github.com", "glab": "gitlab.com"}
PAIRS_OF_VERBS = ("gh", "glab", "jj")  # whose verb for a clone is the second word
GIT_VALUES = names("-c -C --git-dir --work-tree --namespace --exec-path --config-env")
FETCHERS = frozenset(ADDRESSED) | COPIERS | PRINTERS
REMOTE = re.compile(r"(?:[a-z][a-z0-9+.-]*://|s3:|gs:|(?:[\w.+-]+@)?[\w.-]+:)")
ADDRESS = re.compile(r"(?i)\b(?:https?|ftps?|git|ssh)(?:\+\w+)?://[^\s'\"<>|;)\\]+")
# In program text of any language: that it fetches, and that it runs text or starts programs.
FETCHES = re.compile(
    r"urlopen|urlretrieve|urllib|requests\.|httpx|aiohttp|http\.client|urllib3|HTTPSConnection|fetch\s*\(|axios|\bgot\("
    r"|https?\.get|XMLHttpRequest|LWP|HTTP::Tiny|Net::HTTP|open-uri|URI\.(?:open|parse)|open\(['\"]https?:|copy\s*\("
    r"['\"]https?:|file_get_contents\s*\(|curl_exec|readfile\s*\(['\"]http|(?:require|include)(?:_once)?\s*\(?['\"]http"
    r"|import\s*\(?['\"]https?:|create_connection|IO::Socket|fsockopen|Invoke-WebRequest|Invoke-RestMethod|DownloadString"
    r"|DownloadFile|WebClient|\biwr\b|\birm\b|Start-BitsTransfer|\bcurl\b|\bwget\b|/inet/tcp|/dev/tcp",
    re.IGNORECASE,
)
RUNS = re.compile(
    r"(?<![.\w])(?:exec|eval|compile|system|Function)\s*[(\"'$ ]|exec(?:v\w*|l\w*|file|FileSync|Sync)\b|eval\)|runpy"
    r"|importlib|__import__|os\.(?:system|popen|exec|spawn)|subprocess|Popen|pty\.spawn|child_process|spawn(?:Sync)?\s*\("
    r"|runIn\w*Context|_compile|(?:instance|class|module)_eval|passthru|shell_exec|proc_open|popen|dofile|loadstring"
    r"|Invoke-Expression|\biex\b|Start-Process|`[^`]{0,300}\b(?:sh|bash|curl|wget)\b|%x|\|\s*[\"']?(?:ba|z|da|k)?sh\b"
    r"|(?:require|include)(?:_once)?\s*\(?['\"]http|import\s*\(?['\"](?:https?|data):|(?:^|[;{|])\s*&\s*\(",
    re.IGNORECASE,
)
CONNECTS = re.compile(r"\.connect\s{0,9}\(")
QUOTED = re.compile(r"['\"]([\w./~+-]{1,200})['\"]")


@dataclass
class Fetched:
    """What one command brings: the host, whether it prints it, and the names of files and folders that it writes."""

    host: str
    prints: bool = True
    files: tuple = ()
    folders: tuple = ()


def fetched_by(name, words):
    """Return the Fetched of a program with the words after its name; None if it brings nothing."""
    texts = [word.text for word in words]
    if name == "git":
        return _by_git(texts)
    if texts[:1] and texts[0] in CLONERS.get(name, ()) and (name not in PAIRS_OF_VERBS or texts[1:2] == ["clone"]):
        return _cloned(texts[2 if name in PAIRS_OF_VERBS else 1 :], by_name=OWNERS.get(name, ""))
    if name in ADDRESSED:
        return _addressed(name, texts) if name != "gh" or _gh_fetches(texts) else None
    if name in COPIERS:
        return _copied(texts)
    if name in PRINTERS:
        return Fetched(_host(texts) or SOMEWHERE) if texts else None
    return None


def in_text(text):
    """Return the Fetched of program text in another language than the shell's; its quoted names may be its files."""
    if not (FETCHES.search(text) or ("socket" in text and CONNECTS.search(text))):
        return None
    return Fetched(_host([text]) or SOMEWHERE, prints=True, files=tuple(dict.fromkeys(QUOTED.findall(text)))[:20])


def runs(text):
    """Return True if program text in another language than the shell's runs text, or starts programs."""
    return RUNS.search(text) is not None


def _gh_fetches(texts):
    return tuple(texts[:2]) in (("release", "download"), ("run", "download"), ("gist", "view")) or texts[:1] == ["api"]


def _addressed(name, texts):
    outputs, folders, own_names = ADDRESSED[name]
    named, folder, by_address, addresses = [], "", "*" in own_names, []
    rest = list(texts)
    while rest:
        text = rest.pop(0)
        flag, value = _option(name, text, rest)
        if flag in outputs:
            named.append(value)
        elif flag in folders:
            folder = value
        elif flag is None:
            addresses.append(text)
        by_address = by_address or flag in own_names
    if not (addresses or named):
        return None
    if name == "gh":
        prints = texts[0] in ("api", "gist")
        return Fetched("github.com", prints, tuple(named), () if prints or named else (folder or ".",))
    prints = bool({"-", "/dev/stdout"} & set(named)) or not (named or by_address)
    files = [each for each in named if each not in ("-", "/dev/stdout")]
    if by_address and not named:
        files = [_name_in(address) for address in addresses if OPAQUE not in address]
    files = [posixpath.join(folder, each) for each in files]
    return Fetched(_host(addresses, bare=True) or SOMEWHERE, prints, tuple(files))


def _option(name, text, rest):
    """Return (option, its value), the value taken from `rest` if it is the next word; (None, "") for an operand."""
    outputs, folders, own_names = ADDRESSED[name]
    valued = outputs | folders
    if not text.startswith("-") or text == "-":
        return None, ""
    flag, equals, value = text.partition("=")
    if text.startswith("--") or text in valued:
        if flag in valued and equals:
            return flag, value
        return (flag, rest.pop(0)) if flag in valued and rest else (flag, "")
    found = ""
    for at, letter in enumerate(text[1:], 2):
        flag = f"-{letter}"
        if flag in valued:
            return flag, text[at:] or (rest.pop(0) if rest else "")
        if letter in VALUED_LETTERS.get(name, ""):
            if not text[at:] and rest:
                rest.pop(0)
            break
        found = flag if flag in own_names else found
    return found or "-", ""


def _copied(texts):
    operands = [text for text in texts if not text.startswith("-") or text == "-"]
    sources = [text for text in operands[:-1] if REMOTE.match(text)]
    if not sources and operands and REMOTE.match(operands[-1]) and {"cat", "head"} & set(texts):
        return Fetched(_host(operands) or SOMEWHERE)
    if not sources:
        return None
    target = operands[-1]
    if target in ("-", "/dev/stdout"):
        return Fetched(_host(sources) or SOMEWHERE)
    files = (target, *(posixpath.join(target, _name_in(source)) for source in sources))
    return Fetched(_host(sources) or SOMEWHERE, prints=False, files=files)


def _by_git(texts):
    """Return what git brings: a clone, a submodule, or a pull from a repository that its words name."""
    rest, folder = list(texts), ""
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        value = rest.pop(0) if flag in GIT_VALUES and rest else ""
        folder = posixpath.join(folder, value) if flag == "-C" else folder
    verb, rest = (rest[0], rest[1:]) if rest else ("", [])
    if verb == "submodule" and "add" in rest:
        found = _cloned(rest[rest.index("add") + 1 :])
    elif verb == "pull":
        found = _pulled(rest)
    else:
        found = _cloned(rest) if verb == "clone" else None
    if found:
        found.folders = tuple(posixpath.join(folder, each) for each in found.folders)
    return found


def _pulled(texts):
    address = next((text for text in texts if "://" in text or re.match(r"[\w.+-]+@[\w.-]+:", text)), "")
    return Fetched(_host([address]) or SOMEWHERE, prints=False, folders=(".",)) if address else None


def _cloned(texts, *, by_name=""):
    """Return the Fetched of a clone; None for a repository of this machine. `by_name`: the host of an owner/name."""
    operands = [text for text in texts if not text.startswith("-")]
    address = next((text for text in operands if REMOTE.match(text)), "")
    if not address and by_name:
        address = next((text for text in operands if text.count("/") == 1), "")
    if not address:  # an address that is not known
        address = next((text for text in operands if text.startswith(OPAQUE)), "")
    if not address:
        return None
    after = operands[operands.index(address) + 1 :]
    folder = after[0] if after else _name_in(address).removesuffix(".git")
    return Fetched(_host([address]) or by_name or SOMEWHERE, prints=False, folders=(folder,))


def _name_in(address):
    path = re.split(r"[?#]", address.partition("://")[2] or address)[0]
    return path.rstrip("/").rpartition("/")[2].rpartition(":")[2] if "/" in path or ":" in path else "index.html"


def _host(texts, *, bare=False):
    """Return the first host that words or a text plainly name; "" if there is none. `bare`: also without a scheme."""
    for text in texts:
        if match := ADDRESS.search(text):
            address, unknown, _ = match[0].partition(OPAQUE)
            plain = re.sub(r"^(?:git|ssh|git\+\w+)://(?:[^@/]*@)?", "https://", address)
            return "" if unknown and address.count("/") < 3 else host_of(plain) or ""
    form = r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d+)?)(?=[/?]|$)" if bare else r"([\w-]+(?:\.[\w-]+)+)(?=[:/]|$)"
    for text in texts:
        if match := re.match(rf"(?:[\w.+-]+@)?{form}", text):
            return match[1].lower()
    return ""

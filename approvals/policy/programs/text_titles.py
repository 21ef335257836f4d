"""Headlines of text for other programs than a database of SQL: Redis, MongoDB, and program text in any language.

Nobody runs or parses the text: what stands in it is told where a plain form says so.
"""

import re

from ..step_budget import spend
from ..web import host_of
from .sql_titles import sql_title

REDIS = {
    "flushall": "Delete every key of every database", "flushdb": "Delete every key of the database",
    "del": "Delete the keys {}", "unlink": "Delete the keys {}", "hdel": "Delete fields of {}",
    "set": "Set the key {}", "mset": "Set the keys {}", "hset": "Set fields of {}", "expire": "Let the key {} expire",
    "rename": "Rename the key {}", "shutdown": "Shut down the server", "debug": "Run debug {}",
    "config": "Run config {}", "eval": "Run a script", "evalsha": "Run a script", "script": "Run script {}",
    "lpush": "Change the list {}", "rpush": "Change the list {}", "lpop": "Change the list {}",
    "sadd": "Change the set {}", "srem": "Change the set {}", "zadd": "Change the set {}", "zrem": "Change the set {}",
    "xtrim": "Trim the stream {}", "ltrim": "Trim the list {}", "swapdb": "Swap the databases {}",
    "acl": "Run acl {}", "cluster": "Run cluster {}", "replicaof": "Make it a replica of {}",
    "publish": "Publish to {}", "restore": "Restore the key {}", "migrate": "Move keys to {}",
}  # fmt: skip
REDIS_LOSES = ("flushall", "flushdb", "del", "unlink", "hdel", "xtrim", "ltrim", "srem", "zrem", "shutdown", "swapdb")
NAME = r"[\w$.-]{1,60}"
DELETES = "deleteMany|deleteOne|remove|findOneAndDelete|bulkWrite"
CHANGES = "update|updateMany|updateOne|replaceOne|findOneAndUpdate|save"
COLLECTION = (
    r"\w\s*(?:\.\s*getSiblingDB\([^()]{0,80}\)\s*)?"
    rf"(?:\.\s*getCollection\(\s*['\"]({NAME})['\"]\s*\)|\[\s*['\"]({NAME})['\"]\s*\]|\.\s*(\w{{1,60}}))"
)
ALL = r"(?:\s*\{\s*\}|\s*)"
# (a pattern of program text; its headline; whether it loses something). A collection is one of three groups.
MONGO = [
    (r"\.\s*dropDatabase\s*\(", "Drop the database", True),
    (rf"{COLLECTION}\.\s*drop\s*\(", "Drop the collection {}", True),
    (rf"{COLLECTION}\.\s*(?:deleteMany|remove)\s*\({ALL}[,)]", "Delete all documents in {}", True),
    (
        rf"{COLLECTION}\.\s*(?:{DELETES})\s*\(",
        "Delete documents in {}",
        True,
    ),
    (
        rf"{COLLECTION}\.\s*(?:{CHANGES})\s*\(",
        "Change documents in {}",
        True,
    ),
    (rf"{COLLECTION}\.\s*(?:insert|insertMany|insertOne)\s*\(", "Add documents to {}", False),
    (rf"{COLLECTION}\.\s*(?:dropIndexe?s?)\s*\(", "Drop indexes of {}", True),
    (rf"{COLLECTION}\.\s*renameCollection\s*\(", "Rename the collection {}", True),
    (r"\w\[\w+\]\s*\.\s*drop\s*\(", "Drop collections that it looks up", True),
    (r"\.\s*(dropUser|dropAllUsers|createUser|grantRolesToUser|shutdownServer|adminCommand)\s*\(", "Run db.{}", True),
]
MONGO = [(re.compile(pattern), title, loses) for pattern, title, loses in MONGO]
METHODS = re.compile(
    r"(?i)\bmethod['\"]?\s*[:=]\s*['\"`](DELETE|PUT|POST|PATCH)['\"`]"
    r"|\brequest\(\s*['\"`](DELETE|PUT|POST|PATCH)"
    r"|\.(delete|put|post|patch)\(\s*f?['\"`]https?://|Net::HTTP::(Delete|Put|Post|Patch)"
)
URL = re.compile(r"https?://[^'\"`\s)<>]{1,300}")
STRING = re.compile(r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|`([^`]*)`", re.DOTALL)
FILES = re.compile(
    r"(?:rmtree|\bunlink|os\.remove|os\.unlink|rmdir|rmSync|unlinkSync|rm_rf|rm_r|File\.delete|remove_dir_all|removeSync|rimraf)"
    r"\(?\s*(?:sync\()?r?f?['\"`]([^'\"`\n]{1,200})['\"`]|Path\(\s*['\"]([^'\"\n]{1,200})['\"]\s*\)\.(?:unlink|rmdir)\("
)
STARTS = re.compile(
    r"(?:os\.system|popen|subprocess\.\w+|execSync|exec|spawnSync|spawn|system|shell_exec|check_call|check_output|run)"
    r"\s*\(?\s*f?['\"`]([^'\"`\n]{2,200})['\"`]"
)
# Records of an ORM: `User.delete_all`, `User.objects.all().delete()`, `prisma.user.deleteMany()`.
RECORDS = re.compile(
    r"\b([A-Z][\w:]{0,60})[\w.()=,]{0,80}?(?:\.|::)"
    r"(?:delete_all|destroy_all|delete|deleteMany|destroyAll|truncate|drop_all)\b(?!\(\s*f?['\"`]https?://)"
)
BODY_AMOUNT = re.compile(
    r"(?i)(?<![A-Za-z])(amount|total|price|quantity|currency|value)[\"']?\s*:?[=:]\s*[\"']?(-?[\w.,]{1,20}?)(?=[\"'&,}\s]|$)"
)
MAX_TEXT, MAX_TOLD = 20_000, 2


def redis_title(words):
    """Return (headline, whether it loses data) of a command for Redis."""
    verb = words[0].lower() if words else ""
    said = REDIS.get(verb, f"Run {verb} {{}}" if re.fullmatch(r"[a-z.]{2,30}", verb) else "")
    if not said:
        return "", False
    keys = words[1:] if verb in ("del", "unlink") else words[1:2]
    shown = ", ".join(key[:60] for key in keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    return said.format(shown).strip(), verb in REDIS_LOSES


def mongo_title(text):
    """Return (headline, whether it loses data) of text for the shell of MongoDB."""
    found = []
    spend(min(len(text), MAX_TEXT))
    for pattern, title, loses in MONGO:
        for match in pattern.finditer(text[:MAX_TEXT]):
            what = next(filter(None, match.groups()), "a collection") if match.groups() else ""
            found.append((title.format(what), loses))
    titles = list(dict.fromkeys(title for title, _ in found))
    titles = [each for each in titles if each.startswith("Delete all ") or _of_all(each) not in titles]
    return _joined(titles), any(loses for _, loses in found)


def _of_all(said):
    return said.replace("Delete ", "Delete all ", 1) if said.startswith("Delete ") else ""


def program_title(text):
    """Return (headline, whether it loses something) of what program text says plainly; ("", False) if nothing."""
    text = text[:MAX_TEXT]
    spend(2 * len(text))
    titles = [said for match in STRING.finditer(text) if (said := sql_title(next(filter(None, match.groups()), "")))]
    method = METHODS.search(text)
    if method and (url := URL.search(text)):
        verb = next(filter(None, method.groups())).upper()
        titles.append(f"Send a {verb} request to {address_shown(url[0])}")
    titles += [f"Delete {next(filter(None, match.groups()))[:60]}" for match in FILES.finditer(text)]
    titles += [f"Run {match[1][:60]}" for match in STARTS.finditer(text) if not sql_title(match[1])]
    titles += filter(None, [mongo_title(text)[0]])
    if not titles:
        titles += [f"Delete records of {match[1]}" for match in RECORDS.finditer(text)]
    titles = list(dict.fromkeys(titles))
    return _joined(titles), any(each.startswith(("Delete", "Drop", "Empty", "Send a DELETE")) for each in titles)


def address_shown(url):
    """Return the host and the path of an address for a headline, without what may be a secret in it."""
    url = re.sub(r"^(\w+://)[^/@]*@", r"\1", url if "://" in url else f"https://{url}")
    host = host_of(url)
    if not host:
        return ""
    path = re.sub(r"^\w+://", "", url).partition("/")[2].split("?")[0].split("#")[0]
    parts = ["…" if _may_be_key(part) else part for part in path.split("/")]
    said = f"{host}/{'/'.join(parts)}".rstrip("/") if path else host
    return said if len(said) <= 80 else f"{said[:79]}…"


def amounts_in(texts):
    """Return the amounts that the body of a request names, as a headline adds them: ", amount 500, currency eur"."""
    found = [match for text in texts for match in BODY_AMOUNT.finditer(text[:MAX_TEXT])]
    return "".join(f", {name} {value}" for name, value in {match[1]: match[2] for match in found[:4]}.items())


def _may_be_key(part):
    """Return whether a part of a path may be a key, and not a name or an identifier."""
    if not re.fullmatch(r"[\w.~:@!$&()*+,;=%-]*", part):
        return True
    return len(part) >= 16 and bool(re.search(r"\d", part)) and not re.fullmatch(r"[0-9a-f-]{36}|[\d-]+", part)


def _joined(titles):
    if not titles:
        return ""
    said = ", ".join([titles[0], *(each[:1].lower() + each[1:] for each in titles[1:MAX_TOLD])])
    return said + (f" and {len(titles) - MAX_TOLD} more" if len(titles) > MAX_TOLD else "")

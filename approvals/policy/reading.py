"""Which commands of clients only read at the system that they contact, by their verbs and statements."""

import itertools
import re

from .programs import acts, clients
from .programs.given import files, statements
from .programs.queries import sql_problem
from .shell_words import OPAQUE, names

KUBE_READS = names("get describe logs top explain version cluster-info api-resources api-versions diff events wait")
KUBE_PAIRS = (("auth", "can-i"), ("rollout", "status"), ("rollout", "history"))
HELM_READS = names("list ls status get history show search template lint version env verify")
TERRAFORM_READS = names("plan show output validate fmt version providers graph init get test")
STATE_READS = names("list show pull")
REDIS_READS = names(
    "get mget keys scan ttl pttl exists type hget hgetall hmget hkeys hlen lrange llen smembers scard zrange zcard info"
    " ping strlen dbsize randomkey"
)
CLOUD_READS = re.compile(
    r"(?:describe|list|get|head|ls|search|show|read|query|scan|lookup|filter|wait)(?:-[a-z0-9-]+)?"
)
SECRET = re.compile(r"(?i)secret|password|token|credential|authorization|login|parameter|decrypt|keys?\b|sign")
DESCRIBES = re.compile(r"\\[dl][A-Za-z]*\+?(?:\s+[\w.*]+)?\s*")  # of psql
SENDING = re.compile(r"(?:POST|PUT|PATCH|DELETE)$|[\w.-]+:?=[^=]")  # words of httpie
CODE_READS = names("view list ls diff checks status search")
GIT_WRITES = names("push send-pack send-email svn p4 lfs")
LOOKUPS = names("dig nslookup host ping traceroute whois")


def reads_only(form):
    """Return whether a client's words (the program first) only read elsewhere, as far as they say for certain."""
    name, texts = form[0].rpartition("/")[2], list(form[1:])
    if any(OPAQUE in text for text in texts):
        return False
    act = acts.act_of(name, texts)
    if name in LOOKUPS:
        return True
    if act.loses:
        return False
    first, second = [*act.operands[:2], "", ""][:2]
    if name == "git":
        return not GIT_WRITES & {*act.operands[:1]}
    if name in ("kubectl", "oc"):
        reads = first in KUBE_READS or (first, second) in (
            ("auth", "can-i"),
            ("rollout", "status"),
            ("rollout", "history"),
        )
        return reads and "secret" not in " ".join(act.operands[1:]).lower()
    if name == "helm":
        return first in HELM_READS
    if name in ("terraform", "tofu", "terragrunt"):
        return first in TERRAFORM_READS or (first in ("state", "workspace") and second in STATE_READS)
    if name in clients.INFRASTRUCTURE:
        return first in clients.PREVIEWS or first in ("list", "ls", "status", "describe", "logs")
    if name in ("aws", "gcloud", "az"):
        verb = _verb_of_cloud(name, act.operands)
        return bool(CLOUD_READS.fullmatch(verb)) and not SECRET.search(" ".join(act.operands[:4]))
    if name in ("gh", "glab", "hub"):
        return second in CODE_READS or first in ("status", "search", "browse")
    if name == "redis-cli":
        return first.lower() in REDIS_READS
    if name in clients.SQL_SHELLS:
        return _statements_read(texts)
    if name in ("curl", "wget"):
        return _request_reads(texts)
    if name in ("http", "https", "xh", "xhs", "httpie"):
        return not any(
            re.fullmatch(r"POST|PUT|PATCH|DELETE", text) or re.match(r"[\w.-]+:?=[^=]", text) for text in texts
        )
    if name in ("scp", "rsync"):
        remote = [":" in text for text in texts if not text.startswith("-")]
        return len(remote) > 1 and not remote[-1]
    return bool(clients.READING & {first, second}) and not act.publishes


def _verb_of_cloud(name, operands):
    """Return the word of a cloud's client that says what is done: the second of `aws ec2 describe-instances`."""
    if name == "aws":
        return "".join(operands[1:2])
    return next((text for text in operands[1:] if CLOUD_READS.fullmatch(text)), "") if _has_no_other(operands) else ""


def _has_no_other(operands):
    changing = names("create delete update set add remove deploy start stop restart enable disable apply import patch")
    changing |= names("ssh scp resize reset move copy cp rm rsync mv submit run call invoke upload publish")
    return not changing & set(operands)


def _statements_read(texts):
    given = statements(texts)
    return (
        bool(given)
        and not files(texts)
        and all(DESCRIBES.fullmatch(text) or sql_problem(text) is None for text in given)
    )


def _request_reads(texts):
    sending = r"-d|--data.*|--json.*|-F|--form.*|-T|--upload-file.*|--post-.*|--body-.*|-d\S+|-F\S+"
    if any(re.fullmatch(sending, text) for text in texts):
        return bool({"-G", "--get"} & set(texts))
    methods = [after for text, after in itertools.pairwise(texts) if text in ("-X", "--request", "--method")]
    methods += [match[1] for text in texts if (match := re.fullmatch(r"(?:-X|--request=|--method=)(\w+)", text))]
    return all(method.upper() in ("GET", "HEAD", "OPTIONS") for method in methods)

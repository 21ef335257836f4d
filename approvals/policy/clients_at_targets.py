"""Clients of which a rule for a target covers what they do there: they do what their words say, and only that."""

import re

from .environment import variable_effects
from .programs import acts
from .programs.given import FILE_FLAGS, statements
from .reach import ATTACHED, DATABASES, GCLOUD, KUBE, VARIABLES
from .shell_words import names

KUBE_VERBS = names(
    """
    apply create delete get describe logs top rollout scale set label annotate patch replace autoscale expose cordon
    uncordon drain taint exec run wait diff explain events auth api-resources api-versions version cluster-info
    """
)
HELM_VERBS = names("install upgrade rollback list ls status get history test template uninstall show search")
TERRAFORM_VERBS = names("init plan apply import refresh state output show validate workspace providers taint untaint")
LOCAL_VERBS = names("configure config auth sso login logout init ssh scp completion plugin shell interactive alias")
# Options that start programs here, take files as settings, or lead to another server or account.
STARTING = re.compile(
    r"--post-renderer.*|--kubeconfig.*|--plugin.*|--config-dir.*|--cli-input-.*|--flags-file.*|--registry-config.*"
    r"|--client-key.*|--token.*|--editor.*|-K.*|--config|--exec-.*|-from-module.*|-plugin-dir.*|-backend-config.*"
    r"|--kube-(?!context).*|--server.*|--ca-bundle.*|--no-verify-ssl|--certificate-authority.*|--as(?:[-=].*)?"
)
# All options of database clients that neither write files nor start anything.
OF_SQL = re.compile(
    r"-[hpUudDceTtAqXN1B].*|--(?:host|port|username|user|dbname|database|command|execute)(?:=.*)?"
    r"|--(?:tuples-only|no-align|quiet|no-psqlrc|single-transaction|csv|batch|skip-column-names|no-password)"
)
OF_REDIS = re.compile(r"-[hpnauc]|--(?:tls|raw|no-raw|no-auth-warning|user|pass)")
PLACES_BY_PROGRAM = {
    "kube": names("--context --kube-context --cluster --namespace -n"),
    "cloud": names("--profile --project --subscription --region --zone"),
    "db": names("-h --host -d --dbname --database -U --username -p --port -u --user"),
}
STARTS_OR_READS = re.compile(
    r"(?im)\bprogram\b|\bsystem\b|lo_import|lo_export|infile|outfile|dumpfile|load_file|pg_read|pg_ls"
    r"|(?:^|;)[ \t]{0,9}(?:pager|tee|source|edit)\b"
)
HOSTED_BY = names("curl wget git")


def problem(simple, texts, world):
    """Return why a rule for a target covers only the words of this command and not what it does there, or None."""
    if not texts or "/" in texts[0]:
        return "it is no known client"
    if not all(word.literal and word.plain and not word.splits for word in simple.words):
        return "some of its words are known only when it runs"
    name, act = texts[0], acts.act_of(texts[0], texts[1:])
    if any(map(STARTING.fullmatch, texts[1:])):
        return "an option may start programs here, or bring settings of its own"
    if why := _other_form(name, act, texts[1:], simple):
        return why
    outside = next((text for text in texts[1:] if name not in HOSTED_BY and _leaves(text, world)), None)
    return f"{outside[:60]} is outside the workspace, or holds secrets" if outside else None


def _other_form(name, act, texts, simple):
    first = "".join(act.operands[:1])
    if name in ("kubectl", "oc"):
        if any(text.startswith("-s") and not text.startswith("--") for text in texts):
            return "it names a server of its own"
        return None if first in KUBE_VERBS else f"{name} {first[:20]} may be a program of its own"
    if name == "helm":
        return None if first in HELM_VERBS else f"helm {first[:20]} may be a program of its own"
    if name in ("terraform", "tofu"):
        return None if first in TERRAFORM_VERBS else f"{name} {first[:20]} changes its settings here"
    if name == "aws" or name in GCLOUD or name == "az":
        return (
            f"{name} {first[:20]} changes settings here, or opens a shell"
            if LOCAL_VERBS & {*act.operands[:3]}
            else None
        )
    if name in ("psql", "mysql", "mariadb"):
        return _other_statements(texts, simple)
    if name == "redis-cli":
        known = first and not simple.fed_by and not simple.redirects
        plain = all(OF_REDIS.fullmatch(text) for text in texts if text.startswith("-"))
        return None if known and plain else "what it is given is not known"
    return None if name in HOSTED_BY else f"{name[:40]} is no client that a target covers"


def _other_statements(texts, simple):
    """Return why the statements of a database's shell are not only its words, or may start programs here."""
    given = statements(texts)
    given += [word.text for each in simple.redirects for word in each.words if each.op in ("<<", "<<-", "<<<")]
    from_files = any(text.split("=")[0] in FILE_FLAGS for text in texts) or simple.fed_by is not None
    if from_files or any(each.op == "<" for each in simple.redirects):
        return "it takes its statements from a file or a pipe"
    if not all(OF_SQL.fullmatch(text) for text in texts if text.startswith("-")):
        return "one of its options may write a file, or start a program"
    if not given:
        return "it takes its statements from a person"
    if any("\\" in text or STARTS_OR_READS.search(text) for text in given):
        return "its statements may start programs, or read files"
    return None


def _leaves(text, world):
    """Return whether a word, or a part of it, names a file outside the workspace, a secret or a protected path."""
    if not text or " " in text or re.match(r"(?:https?|s3|gs|oci|postgres(?:ql)?|mysql|redis)://", text):
        return False
    text = re.sub(r"^--?[\w-]+=", "", text)
    if text.startswith("-"):
        return False
    for part in filter(None, {text, *re.split(r"[=,:@]|fileb?://", text)}):
        place = world.place(part)
        looks_like_path = part.startswith(("/", "~", ".")) or "/" in part
        if place.unclear or place.secret or place.protected or (looks_like_path and not place.inside):
            return True
        if place.inside and world.holds_secret(place.lexical, links=True, hidden=True):
            return True
    return False


def variable_effects_of(simple, texts):
    """Return the effects of the variables that only say where the command acts."""
    named = [(name, value) for name, value in simple.assigns if name in VARIABLES and name != "KUBECONFIG"]
    plain = [(name, value) for name, value in named if value is not None and value.literal]
    return [effect for name, value in plain for effect in variable_effects(name, value, texts[0])]


def is_there(effect, rule):
    """Return whether an effect is at the target, so that the rule covers it; a dangerous form of a push it spells."""
    if effect.tier not in ("low", "medium", "high") or effect.kind not in ("remote", "network", "push"):
        return False
    return effect.kind != "push" or all(
        word in rule.spelled for word in effect.spelled if word.startswith(("-", "+", ":"))
    )


def without_places(texts):
    """Return a client's words without the options that say where it acts, so that rules compare what it does."""
    group = "kube" if texts[:1] and texts[0].rpartition("/")[2] in KUBE else ""
    group = group or ("db" if texts[:1] and texts[0].rpartition("/")[2] in DATABASES else "cloud")
    options, kept, rest = PLACES_BY_PROGRAM[group], texts[:1], list(texts[1:])
    while rest:
        text = rest.pop(0)
        flag, equals, _ = text.partition("=")
        if flag in options or flag == "-chdir":
            rest = rest[1:] if not equals and rest else rest
        elif not (group == "db" and ATTACHED.fullmatch(text)):
            kept.append(text)
    return kept

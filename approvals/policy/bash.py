"""The verdict on a shell command: every simple command in it is judged, and the strictest decides."""

import re
from dataclasses import replace

from .commands import effects_of
from .coverage import file_rules, find_rule, gap, restricting
from .hidden import hidden_in
from .rules import FILE_READERS, FILE_WRITERS
from .script import Reader
from .shell import MAX_COMMAND, Unreadable, parse
from .titles import headline, title_of
from .verdict import TIERS, Effect, SubCommand, Verdict, undo_of, worst
from .web import is_private

VERBS = ("push", "remote", "install", "network", "harmful", "delete", "write", "start", "unknown", "unclear", "hidden")
VERBS += ("local", "run", "read")
# Kinds of effects that the card gathers evidence for; all others are "run".
EVIDENCE = ("push", "remote", "install", "network", "delete", "write", "read")


def classify(arguments, policy, world, context):
    """Judge `{command}`; other arguments of the tool (description, timeout) have no effect here."""
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        return Verdict("high", ["Waits because it holds no command."], title="Run an empty command")
    refusal = _refusal(command, arguments)
    try:
        commands = Reader(command, world).read(parse(command))
    except (Unreadable, RecursionError) as error:
        why = str(error) if isinstance(error, Unreadable) else "it is nested too deeply"
        return _unreadable(command, policy, refusal or why)
    entries = [judge(simple, number, policy, world, context) for number, simple in enumerate(commands, 1)]
    verdict = _sum_up(entries, policy)
    return _held(verdict, _unreadable(command, policy, refusal)) if refusal else verdict


def _held(verdict, held):
    """What can be read of a command that is held for another reason: its lines, headline and undo stay."""
    more = verdict.reasons if verdict.tier not in ("low", "medium") else []
    stricter = worst([verdict.tier, held.tier])
    rule = held.rule if stricter == held.tier and held.rule else verdict.rule
    return replace(verdict, tier=stricter, reasons=[*held.reasons, *more], rule=rule)


def _refusal(command, arguments):
    if arguments.get("dangerouslyDisableSandbox"):
        return "it asks to run outside the sandbox"
    if len(command) > MAX_COMMAND:
        return None  # the parser says so; looking for hidden characters would take long
    hidden = hidden_in(command)
    return f"it holds a hidden character, {hidden}" if hidden else None


def _unreadable(command, policy, why):
    met = restricting(policy, lambda rule: rule.tool == "Bash" and rule.resembles(command, []))
    tier = worst(["high", met[0]] if met else ["high"])
    rule = met[1].text if met else None
    return Verdict(tier, [f"Waits because {why}."], rule, "no", "Run a command that is not clear")


def judge(simple, line, policy, world, context):
    """Return the SubCommand entry of one simple command, tier and reason included."""
    result = effects_of(simple, world)
    found, words = result.effects, result.words
    if context.get("resolves_to") and words:
        found.append(_resolved(context["resolves_to"], world))
    texts = [word.text for word in words]
    entry = SubCommand(simple.text, line, [w.text for w in simple.words], undo=undo_of(found), effects=found)
    entry.cwd = simple.cwds[0] if len(simple.cwds) == 1 else ""
    leading = next((e for kind in VERBS for e in found if e.kind == kind), None)
    entry.what = (leading.kind if leading.kind in EVIDENCE else "run") if leading else "read"
    entry.targets = list(dict.fromkeys(t for e in found for t in (e.target, *e.more) if t))
    entry.headline = headline(words, found)
    _decide(entry, simple, texts, result, policy, world)
    return entry


def _resolved(path, world):
    path = str(path)
    if re.fullmatch(r"[0-9a-fA-F.:]+", path):
        inward = is_private(path)
        says = f"contacts a host at {path}" + (", a private address" if inward else "")
        return Effect("hidden" if inward else "read", says, "high" if inward else "low", "no" if inward else "yes")
    if path.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")):
        return Effect("read", "runs the installed program", "low")
    return Effect("hidden", f"would run {path[:100]}, not the program that it names", "high", "no")


def _decide(entry, simple, texts, result, policy, world):
    found = result.effects
    if not simple.words and not found:
        entry.tier, entry.reason = "low", f"line {entry.line} changes nothing"
        return
    met = restricting(policy, lambda rule: _meets(rule, simple, texts, result, world))
    built_in = worst(e.tier for e in found if e.tier in ("critical", "forbidden"))
    strict = worst([met[0] if met else "low", built_in])
    if strict != "low":
        entry.tier = strict
        entry.rule = met[1].text if met and met[0] == strict else None
        entry.reason = _because(entry, found, met[1] if met else None)
        return
    no_effect = texts[:1] in (["true"], [":"], ["false"]) and not found
    # What a loop reads or throws away; the commands in it are judged on their own.
    no_effect = no_effect or (simple.form == "compound" and worst(e.tier for e in found) == "low")
    allowed = None if no_effect else _allowed(simple, texts, found, policy, world)
    if allowed:
        entry.tier, entry.rule = allowed[0], allowed[1].text
        entry.reason = f"line {entry.line} is covered by the rule {allowed[1].text}"
        return
    entry.tier = "low" if no_effect else by_mode(policy.mode, found)
    if entry.tier == "low":
        entry.reason = "it only reads"
    elif worst(e.tier for e in found) == "low":
        entry.reason = f"line {entry.line} runs {texts[0][:60] if texts else 'a command'}, which no rule covers"
    else:
        entry.reason = _because(entry, found, None)


def _meets(rule, simple, texts, result, world):
    if rule.tool == "Bash":
        forms = [texts, [word.text for word in simple.words], *result.also]
        return rule.resembles(simple.text, texts) or any(rule.resembles(" ".join(form), form) for form in forms)
    kinds = {**dict.fromkeys(FILE_WRITERS, ("write", "delete")), **dict.fromkeys(FILE_READERS, ("read",))}.get(
        rule.tool, ()
    )
    return any(e.place is not None and e.kind in kinds and rule.meets_path(e.place, world) for e in result.effects)


def _allowed(simple, texts, found, policy, world):
    edits = file_rules(policy)
    written = [word.text for word in simple.words]

    def covers(rule):
        named = rule.names(texts) or rule.names(written) or (rule.exact and rule.spec.strip() == simple.text.strip())
        if not texts or not named:
            return False
        return gap(rule, found, edits, world) is None

    return find_rule(policy, ("Bash",), covers)


def by_mode(mode, found):
    """Return the tier of a command that no rule names."""
    tier = worst(e.tier for e in found)
    if mode == "everything":
        return worst([tier, "high"])
    if mode == "commands" and tier == "medium":
        return "high"
    return tier


def _because(entry, found, rule):
    tier = entry.tier
    leading = max(found, key=lambda e: TIERS.index(e.tier), default=None)
    says = leading.says if leading else "runs a command"
    named = f" (rule {rule.text})" if rule else ""
    return f"line {entry.line} {says}{named}" if tier else says


def _sum_up(entries, policy):
    if not entries:
        return Verdict("low", ["Runs without asking: it holds no command."], None, "yes", "Do nothing", [])
    tier = worst(entry.tier for entry in entries)
    lead = "Refused" if tier == "forbidden" else "Waits" if tier in ("high", "critical") else "Runs without asking"
    deciding = [entry for entry in entries if entry.tier == tier]
    reasons = list(dict.fromkeys(f"{lead} because {entry.reason}." for entry in deciding))
    notes = [f"The rule {text} grants nothing: {why}" for text, why in policy.ignored.items()] if tier != "low" else []
    undo = undo_of([effect for entry in entries for effect in entry.effects])
    rule = next((entry.rule for entry in deciding if entry.rule), None)
    return Verdict(tier, reasons[:20] + notes, rule, undo, title_of(entries), [entry.as_dict() for entry in entries])

"""The verdict on a shell command: each simple command in it is judged, and the strictest tier wins."""

import re
from dataclasses import replace

from . import clients_at_targets, current_branch, envelopes, reach
from .clients_at_targets import without_places
from .commands import effects_of
from .conditions import Around, Facts, acts_at
from .coverage import file_rules, find_rule, gap, restricting
from .download_words import plainly
from .hidden_characters import hidden_in
from .opens import opened
from .programs.registry import runs_project_code
from .rules import CLASSES, FILE_READERS, FILE_WRITERS, Form, joined
from .script import Reader
from .shell import MAX_COMMAND, Unreadable, parse
from .step_budget import TooMuch, limited
from .titles import headline, title_of
from .verdict import ALLOWING, RESTRICTING, TIERS, Effect, SubCommand, Verdict, reason, shown, undo_of, worst
from .web import is_private

VERBS = ("push", "remote", "install", "network", "harmful", "delete", "write", "start", "unknown", "unclear", "hidden")
VERBS += ("local", "run", "read")
MAX_BROUGHT = 50  # paths of one command that its entry names
TOO_MUCH = "it takes more steps to judge than a command may take"
# Kinds of effects that the card gathers evidence for; all others count as "run".
EVIDENCE = ("push", "remote", "install", "network", "delete", "write", "read")
# Kinds whose effect depends on files that the command names.
RUNNING = ("start", "run", "unknown", "remote", "install", "harmful", "hidden", "unclear")


def classify(arguments, policy, world, context, reading=None):
    """Judge `{command}`; other arguments of the tool (description, timeout) have no effect here.

    `reading`: a dict that keeps what was read of this very call, for another policy (see _read).
    """
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        return Verdict("high", [reason("high", "holds no command")], title="Run an empty command")
    refusal = _refusal(command, arguments)
    terms = envelopes.Terms.of(context, policy.trust)
    unreadable = policy.seen(Facts(Around.of(context), reach.unread(command))) if policy.blocks else policy
    try:
        parts = _read(command, world, reading)
        if policy.blocks and any(current_branch.may_change(simple, found) for simple, found in parts):
            context = context | {"branch_may_change": True}
        entries = [
            judge(simple, number, policy, world, context, terms, found)
            for number, (simple, found) in enumerate(parts, 1)
        ]
    except Unreadable as error:
        return _unreadable(command, unreadable, refusal or str(error))
    except RecursionError:
        return _unreadable(command, unreadable, refusal or "it is nested too deeply")
    except TooMuch:
        with limited():
            return _unreadable(command, unreadable, refusal or TOO_MUCH)
    verdict = _sum_up(entries, policy, terms)
    return _with_refusal(verdict, _unreadable(command, unreadable, refusal)) if refusal else verdict


def _read(command, world, reading):
    """Return (simple command, its Found) of each part of a command, for all policies that trust the same."""
    key = (world.trusted_programs, world.trusted_places)
    if reading is not None and key in reading:
        return reading[key]
    parts = [(simple, effects_of(simple, world)) for simple in Reader(command, world).read(parse(command))]
    if reading is not None:
        reading[key] = parts
    return parts


def _with_refusal(verdict, held):
    """Add a refusal (`held`) to the verdict on a readable command, which keeps its lines, headline and undo."""
    more = verdict.reasons if verdict.tier not in ("low", "medium") else []
    stricter = worst([verdict.tier, held.tier])
    rule = held.rule if stricter == held.tier and held.rule else verdict.rule
    return replace(verdict, tier=stricter, reasons=[*held.reasons, *more], rule=rule, envelope=None)


def _refusal(command, arguments):
    if arguments.get("dangerouslyDisableSandbox"):
        return "it asks to run outside the sandbox"
    if len(command) > MAX_COMMAND:
        return None  # the parser refuses it; a search for hidden characters would take long
    hidden = hidden_in(command)
    return f"it holds a hidden character, {hidden}" if hidden else None


def _unreadable(command, policy, why):
    form = Form.of(command, [])
    met = restricting(policy, lambda rule: rule.tool == "Bash" and rule.resembles(form))
    runs_download = plainly(command)
    tier = worst(["critical" if runs_download else "high", *([met[0]] if met else [])])
    rule = met[1].text if met else None
    title = "Run a command that Handrail can't read"
    if runs_download:
        title = "Download a script and run it, in a command that Handrail can't read"
    if len(command) > MAX_COMMAND:
        title = f"Command too long to analyse ({len(command):,} characters)"
    return Verdict(tier, [reason(tier, why)], rule, "unknown", title)


def judge(simple, line, policy, world, context, terms=None, result=None):
    """Return one simple command as a SubCommand, with tier and reason."""
    result = result or effects_of(simple, world)
    words = result.words
    found = [*result.effects, *_resolved(context.get("resolves_to"), words, world)]
    result = replace(result, effects=found)
    texts = [word.text for word in words]
    entry = SubCommand(simple.text, line, [w.text for w in simple.words], undo=undo_of(found), effects=found)
    entry.cwd = simple.cwds[0] if len(simple.cwds) == 1 else ""
    leading = next((e for kind in VERBS for e in found if e.kind == kind), None)
    entry.what = (leading.kind if leading.kind in EVIDENCE else "run") if leading else "read"
    entry.targets = _targets(found)
    kinds = ("network", "remote") if entry.what in ("network", "remote") else (entry.what,)
    entry.names = _targets([e for e in found if e.kind in kinds])
    entry.brings = dict(list(simple.brings.items())[:MAX_BROUGHT])
    entry.runs = any(effect.kind in RUNNING for effect in found)
    entry.opens = opened([*found, *result.within])
    entry.headline = shown(headline(words, found))
    if policy.blocks or context.get("tells_reach"):
        around = Around.of(context)
        facts = Facts(around, reach.of_command(simple, result, world, around.current_branch), undo=entry.undo)
        if context.get("tells_reach"):
            kinds = sorted({effect.kind for effect in (*found, *result.within)})
            entry.reach = facts.reach.as_dict() | {"effects": kinds}
        entry.acts_at, policy = acts_at(policy.targets, facts), policy.seen(facts)
    _decide(entry, simple, texts, result, policy, world, terms)
    if terms and entry.tier in ALLOWING:
        program = texts[0].rsplit("/", 1)[-1] if texts else ""
        by_rule = entry.rule is not None
        entry.envelope = envelopes.envelope_of(program, entry.tier, found, terms, by_rule=by_rule)
        entry.code_host_read = terms.code_host and any(effect.at_code_host for effect in (*found, *result.within))
    return entry


def _targets(found):
    return list(dict.fromkeys(t for e in found for t in (e.target, *e.more) if t))


def _resolved(known, words, world):
    """Return the effect of what a program's name leads to: `known` is one path or address, or {name: path}."""
    name = words[0].text if words else ""
    if isinstance(known, dict):
        path = known.get(name)
        ours = not path or name in world.trusted_programs or runs_project_code(name)
        return [] if ours else [Effect("hidden", _would_run(path), "high", "no")]
    return [_resolved_to(str(known))] if known and words else []


def _would_run(path):
    return f"would run {str(path)[:100]}, not the program that it names"


def _resolved_to(path):
    if re.fullmatch(r"[0-9a-fA-F.:]+", path):
        inward = is_private(path)
        says = f"contacts a host at {path}" + (", a private address" if inward else "")
        return Effect("hidden" if inward else "read", says, "high" if inward else "low", "no" if inward else "yes")
    if path.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")):
        return Effect("read", "runs the installed program", "low")
    return Effect("hidden", _would_run(path), "high", "no")


def _decide(entry, simple, texts, result, policy, world, terms):
    found = result.effects
    if not simple.words and not found:
        entry.tier, entry.reason = "low", "changes nothing"
        return
    forms = _forms(simple, texts, result)
    met = restricting(policy, lambda rule: _meets(rule, forms, result, world))
    built_in = worst(e.tier for e in found if e.tier in ("critical", "forbidden"))
    strict = worst([met[0] if met else "low", built_in])
    if strict != "low":
        entry.tier = strict
        entry.rule = met[1].text if met and met[0] == strict else None
        entry.reason = _because(entry, found, met[1] if met else None)
        return
    no_effect = texts[:1] in (["true"], [":"], ["false"]) and not found
    # Redirects of a compound command that only read or discard; the commands in it are judged on their own.
    no_effect = no_effect or (simple.form == "compound" and worst(e.tier for e in found) == "low")
    allowed = None if no_effect else _allowed(simple, texts, found, policy, world)
    if allowed:
        entry.tier, entry.rule = allowed[0], allowed[1].text
        entry.reason = f"covered by the rule {allowed[1].text}"
        return
    found = _in_force(result, policy, terms)
    entry.tier = "low" if no_effect else by_mode(policy.mode, found)
    if entry.tier == "low":
        entry.reason = "only reads"
    elif worst(e.tier for e in found) == "low":
        entry.reason = f"runs {texts[0][:60] if texts else 'a command'}, which no rule covers"
    else:
        entry.reason = _because(entry, found, None)


def _in_force(result, policy, terms):
    """Return the effects as they count where the call is held, or where the policy trusts the code host."""
    if terms:
        return envelopes.held([*result.effects, *result.within], terms)
    if not policy.trust.code_host:
        return result.effects
    return [replace(e, tier="medium") if e.at_code_host and e.tier == "high" else e for e in result.effects]


def _forms(simple, texts, result):
    """Return every form of the command that a restricting rule may match."""
    more = [texts, without_places(texts), [word.text for word in simple.words], *result.also]
    return list(dict.fromkeys([Form.of(simple.text, texts), *(Form.of(" ".join(words), words) for words in more)]))


def _meets(rule, forms, result, world):
    if rule.tool == "Bash":
        return any(rule.resembles(form) for form in forms)
    kinds = {**dict.fromkeys(FILE_WRITERS, ("write", "delete")), **dict.fromkeys(FILE_READERS, ("read",))}.get(
        rule.tool, ()
    )
    found = (*result.effects, *result.of_scripts)
    return any(e.place is not None and e.kind in kinds and rule.meets_path(e.place, world) for e in found)


def _allowed(simple, texts, found, policy, world):
    edits = file_rules(policy)
    run, written = joined(texts), joined([word.text for word in simple.words])
    there = _left_at_target(simple, texts, found, policy, world)

    def covers(rule):
        if not texts:
            return False
        if there is not None and rule.at_target:
            named = rule.tool in CLASSES or rule.names(joined(without_places(texts)))
            if named and gap(rule, there(rule), edits, world) is None:
                return True
        named = rule.names(run) or rule.names(written) or (rule.exact and rule.spec.strip() == simple.text.strip())
        return rule.tool == "Bash" and named and gap(rule, found, edits, world) is None

    return find_rule(policy, ("Bash", *CLASSES), covers)


def _left_at_target(simple, texts, found, policy, world):
    """Return what gives the effects that are left if a rule covers what a call does at its target; None if none may.

    Only clients that do there what their words say, and nothing else here, are covered so.
    """
    if not any(rule.at_target for tier in ALLOWING for rule in policy.tier(tier)):
        return None
    if clients_at_targets.problem(simple, texts, world):
        return None
    names = clients_at_targets.variable_effects_of(simple, texts)

    def left(rule):
        return [effect for effect in found if effect not in names and not clients_at_targets.is_there(effect, rule)]

    return left


def by_mode(mode, found):
    """Return the tier of a command that no rule matches."""
    tier = worst(e.tier for e in found)
    if mode == "everything":
        return worst([tier, "high"])
    if mode == "commands" and tier == "medium":
        return "high"
    return tier


def _because(entry, found, rule):
    # Of equally strict effects report the best known kind: a push rather than an unknown option.
    leading = max(found, key=lambda e: (TIERS.index(e.tier), -VERBS.index(e.kind)), default=None)
    entry.kind = leading.kind if leading else ""
    says = leading.says if leading else "runs a command"
    named = f" (rule {rule.text})" if rule else ""
    return f"{says}{named}"


def _sum_up(entries, policy, terms):
    if not entries:
        return Verdict("low", [reason("low", "holds no command")], None, "yes", "Do nothing", [])
    tier = worst(entry.tier for entry in entries)
    deciding = [entry for entry in entries if entry.tier == tier]
    # Name the part only if a person has to look for it, not in what runs without approval.
    numbered = len(entries) > 1 and tier in RESTRICTING
    parts = (f"part {entry.line} {entry.reason}" if numbered else entry.reason for entry in deciding)
    reasons = list(dict.fromkeys(reason(tier, says) for says in parts))
    notes = [f"The rule {text} grants nothing: {why}" for text, why in policy.ignored.items()] if tier != "low" else []
    undo = undo_of([effect for entry in entries for effect in entry.effects])
    rule = next((entry.rule for entry in deciding if entry.rule), None)
    verdict = Verdict(tier, reasons[:20] + notes, rule, undo, title_of(entries), [entry.as_dict() for entry in entries])
    if terms and tier in ALLOWING:
        verdict.envelope = envelopes.joined(entry.envelope for entry in entries)
        verdict.code_host_read = any(entry.code_host_read for entry in entries)
    return verdict

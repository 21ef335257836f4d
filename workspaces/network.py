"""What a workspace may reach: its environment's lists, what people have allowed beside them, and what was tried."""

import hashlib
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from dashboard import clock
from dashboard.models import Actor, Agent, Token
from dashboard.problems import conflict, invalid, not_found
from dashboard.tokens import derived, make_token, sha256
from workspaces import effects, environments, isolation, lifecycle, secrets
from workspaces.egress.names import HANDRAIL, BadName, Rule, read_rule, read_rules
from workspaces.models import Allowance, Contact, Effect, Environment, Run, Workspace

PHASES = ("setup", "agent")
SCOPES = ("once", "workspace", "environment")
SCOPE_WORDS = {"once": "once", "workspace": "for this workspace", "environment": "with its environment"}
RUN = "run"  # the scope of a token that a Run was given
TOKEN = "HANDRAIL_TOKEN"  # the variable that holds it
TOKEN_HOURS = 24  # a live Run's are extended
ROWS_AT_MOST = 300  # of one workspace; further hosts are counted together
OTHERS = "(other hosts)"
TOLD_AT_MOST = 50  # blocked hosts of one workspace that get a line in the log
NOT_LISTED = "it is not on this workspace's list"
PROXY = "http://127.0.0.1:3128"
URL = f"http://{HANDRAIL}"
ALLOWANCES_AT_MOST = 200


def is_led(workspace) -> bool:
    """Is its network ours to give? A user's own folder has the user's."""
    return isolation.ISOLATION[workspace.environment.driver] != "none"


def environment_variables() -> dict[str, str]:
    """What every program of a Run finds, so that git, pip, npm and curl take the proxy by themselves."""
    around = f"{HANDRAIL},localhost,127.0.0.1"
    names = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY, "NO_PROXY": around}
    return names | {name.lower(): value for name, value in names.items()} | {"HANDRAIL_URL": URL}


# Lists ---------------------------------------------------------------------------------------------------------------


def read_egress(wish: dict) -> dict:
    """{"setup": [host…], "agent": [host…]} as it is kept, without what is empty; Problem 422."""
    try:
        found = {phase: [str(rule) for rule in read_rules(wish.get(phase) or [])] for phase in PHASES}
    except BadName as error:
        raise invalid(str(error)) from None
    return {phase: hosts for phase, hosts in found.items() if hosts}


def listed(environment: Environment, phase: str) -> list[Rule]:
    """The environment's rules for a phase; what cannot be read allows nothing."""
    found = []
    for text in environment.egress.get(phase) or []:
        try:
            found.append(read_rule(str(text)))
        except BadName:
            continue
    return found


def _open(workspace_id, phase: str):
    now = clock.now()
    rows = Allowance.objects.filter(workspace=workspace_id, phase=phase, ended_at=None)
    return rows.filter(Q(expires_at=None) | Q(expires_at__gt=now)).order_by("created_at")


def judge(workspace_id, phase: str, host: str, port: int) -> str:
    """ "" when it may be reached now, else why not."""
    environment = Environment.objects.get(workspaces=workspace_id)
    if any(rule.allows(host, port) for rule in listed(environment, phase)):
        return ""
    allowed = any(read_rule(one.rule).allows(host, port) for one in _open(workspace_id, phase))
    return "" if allowed else NOT_LISTED


def use(workspace_id, phase: str, host: str, port: int) -> tuple[str, bool]:
    """(as `judge` says, whether it holds only as long as that): an allowance that holds once is used up by it."""
    environment = Environment.objects.get(workspaces=workspace_id)
    if any(rule.allows(host, port) for rule in listed(environment, phase)):
        return "", True
    fitting = [one for one in _open(workspace_id, phase) if read_rule(one.rule).allows(host, port)]
    if any(one.scope != "once" for one in fitting):
        return "", True
    for one in fitting:
        if Allowance.objects.filter(pk=one.pk, ended_at=None).update(ended_at=clock.now()):
            return "", False
    return NOT_LISTED, True


def no_longer(workspace_id, phase: str, targets: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Which of these (host, port) may not be reached any more."""
    rules = listed(Environment.objects.get(workspaces=workspace_id), phase)
    rules += [read_rule(one.rule) for one in _open(workspace_id, phase).exclude(scope="once")]
    return {(host, port) for host, port in targets if not any(rule.allows(host, port) for rule in rules)}


# Allowing ------------------------------------------------------------------------------------------------------------


def check_wish(workspace, wish: dict) -> dict:
    """{host, port?, scope, phase} as it is asked for and kept. Problem 409, 422."""
    if not is_led(workspace):
        raise conflict(f"{workspace.key} is your own folder with your own network; Handrail holds nothing back there.")
    scope, phase = wish.get("scope") or "workspace", wish.get("phase") or "agent"
    if scope not in SCOPES or phase not in PHASES:
        raise invalid(f"A host is allowed {', '.join(SCOPES)}, in the phase {' or '.join(PHASES)}.")
    port = wish.get("port")
    try:
        rule = read_rule(f"{wish['host']}:{port}" if port else wish["host"])
    except BadName as error:
        raise invalid(str(error)) from None
    if rule.below and scope == "once":
        raise invalid("Once is for one host, not for *.")
    return {"host": str(rule), "scope": scope, "phase": phase}


@transaction.atomic
def allow(workspace: Workspace, wish: dict, *, by: Actor, pk=None) -> Allowance:
    """Let it be reached from now on, without a restart of anything. The same `pk` again is the same allowance.

    `wish` as `check_wish` returns it. For the environment: its next version has the host, and so has this workspace.
    """
    Workspace.objects.select_for_update().get(pk=workspace.pk)
    if pk and (known := Allowance.objects.filter(pk=pk).first()):
        return known
    if workspace.allowances.filter(ended_at=None).count() >= ALLOWANCES_AT_MOST:
        raise conflict(
            f"{workspace.key} has {ALLOWANCES_AT_MOST} hosts allowed already; put them into its environment."
        )
    if wish["scope"] == "environment":
        _add_to_environment(workspace.environment, wish, by)
    now = clock.now()
    made = Allowance.objects.create(
        **({"pk": pk} if pk else {}),
        workspace=workspace,
        rule=wish["host"],
        phase=wish["phase"],
        scope=wish["scope"],
        by={"type": by.type, "id": by.id, "label": by.label},
        created_at=now,
        expires_at=now + timedelta(seconds=settings.HANDRAIL_CONSUME_SECONDS) if wish["scope"] == "once" else None,
    )
    reason = f"{made.rule}, {SCOPE_WORDS[made.scope]}"
    lifecycle.record(workspace, by, "network.allowed", {**wish, "reason": reason, "allowance": str(made.pk)})
    return made


def _add_to_environment(environment: Environment, wish: dict, by: Actor):
    latest = environments.newest_of(environment)
    lists = {phase: list(latest.egress.get(phase) or []) for phase in PHASES}
    if wish["host"] not in lists[wish["phase"]]:
        lists[wish["phase"]].append(wish["host"])
        environments.save(latest.team, latest.name, {"egress": read_egress(lists)}, base=latest, by=by)


def allow_by_runner(workspace: Workspace, wish: dict, *, by: Actor) -> Effect:
    """The same as an effect, for an action that was approved."""
    return effects.submit(f"{lifecycle.KINDS}.allow_host", workspace=workspace, by=by, args=check_wish(workspace, wish))


def find_allowance(workspace: Workspace, pk) -> Allowance:
    if (found := workspace.allowances.filter(pk=pk).first()) is None:
        raise not_found("allowance")
    return found


@transaction.atomic
def take_back(allowance: Allowance, *, by: Actor):
    """It does not hold any more, also for connections that are open; an environment's list is changed on its page."""
    if Allowance.objects.filter(pk=allowance.pk, ended_at=None).update(ended_at=clock.now()):
        lifecycle.record(
            allowance.workspace, by, "network.taken_back", {"host": allowance.rule, "reason": allowance.rule}
        )


# What was tried ------------------------------------------------------------------------------------------------------


def count(workspace_id, phase: str, verdict, times: int, at):
    """Add to the row of this verdict (egress.carry.Verdict), or make it. Called by the workspace's one runner only."""
    key = {
        "workspace_id": workspace_id,
        "phase": phase,
        "host": verdict.host[:253].replace("\0", "\ufffd"),
        "port": verdict.port,
        "method": verdict.method[:16],
        "allowed": verdict.allowed,
        "why": verdict.why[:200],
    }
    with transaction.atomic():
        if _add(key, verdict, times, at):
            return
        if Contact.objects.filter(workspace=workspace_id).count() >= ROWS_AT_MOST:
            key |= {"host": OTHERS, "port": 0, "method": "", "why": "" if verdict.allowed else NOT_LISTED}
            if _add(key, verdict, times, at):
                return
        made = Contact.objects.create(
            **key, first_at=at, last_at=at, count=times, sent=verdict.sent, received=verdict.received
        )
        if not made.allowed:
            _tell_of_block(made)


def _add(key: dict, verdict, times: int, at) -> int:
    more = {"count": F("count") + times, "sent": F("sent") + verdict.sent, "received": F("received") + verdict.received}
    return Contact.objects.filter(**key).update(**more, last_at=at)


def _tell_of_block(made: Contact):
    """A line in the log for the first try at a host, and for so many hosts at most: the counts are on the page."""
    blocked = Contact.objects.filter(workspace=made.workspace_id, allowed=False)
    if made.host and blocked.count() <= TOLD_AT_MOST and blocked.filter(host=made.host).count() == 1:
        reason = f"{made.host}:{made.port}: {made.why}"
        data = {"host": made.host, "port": made.port, "phase": made.phase, "reason": reason}
        lifecycle.record(made.workspace, Actor.system("proxy"), "network.blocked", data)


# For the API and the page --------------------------------------------------------------------------------------------


def phase_of(workspace: Workspace) -> str:
    return "setup" if workspace.state in ("creating", "setting_up") else "agent"


def shown(workspace: Workspace) -> dict:
    """Everything that is known of a workspace's network: lists, allowances, what was held back and what went out."""
    rows = list(workspace.contacts.order_by("-last_at")[: ROWS_AT_MOST + 2])
    allowances = list(workspace.allowances.order_by("-created_at")[:50])
    environment = workspace.environment
    held = {phase: listed(environment, phase) for phase in PHASES}
    for one in _open(workspace.pk, "setup").exclude(scope="once") | _open(workspace.pk, "agent").exclude(scope="once"):
        held[one.phase].append(read_rule(one.rule))
    for row in rows:
        row.now_allowed = not row.allowed and any(rule.allows(row.host, row.port) for rule in held[row.phase])
        row.can_be_asked = row.why == NOT_LISTED and row.host != OTHERS and not row.now_allowed
    run = Run.objects.filter(workspace=workspace, ended_at=None).first()
    return {
        "led": is_led(workspace),
        "phase": phase_of(workspace),
        "lists": {phase: [str(rule) for rule in listed(environment, phase)] for phase in PHASES},
        "allowances": allowances,
        "blocked": [row for row in rows if not row.allowed],
        "allowed": [row for row in rows if row.allowed],
        "trouble": run.network if run else "",
    }


# The token of a Run --------------------------------------------------------------------------------------------------


def agent_of(workspace: Workspace) -> Agent:
    """For whom programs in the workspace speak: the agent that made it, else one that is bound to it, else one of its
    own, which is made and bound."""
    found = workspace.created_by_agent or workspace.bound_agents.order_by("created_at").first()
    if found is None:
        tag = hashlib.sha256(str(workspace.pk).encode()).hexdigest()[:6]  # a key can come again, this agent cannot
        found = Agent.objects.get_or_create(team=workspace.team, name=f"in {workspace.key} {tag}")[0]
        workspace.bound_agents.add(found)
    return found


def _plain_of(run: Run) -> str:
    """That of its own, or of the Run in which its programs began: what these have goes on with them."""
    return derived(f"run:{run.owner.get('began') or run.pk}")


def make_run_token(workspace: Workspace, run: Run):
    """A token for the programs of this Run. It is worked out anew for each program, and kept nowhere in the clear.

    As long as it is good, what the programs write is searched for it like for any secret. Programs that went on from
    kept memory have theirs already; it is good again, unless somebody has revoked it.
    """
    plain = _plain_of(run)
    if not is_led(workspace):
        return
    known = Token.objects.filter(sha256=sha256(plain), workspace=workspace).first()
    if known is None:
        revoke_run_tokens(workspace.pk)  # those of programs that slept and will not go on
    elif known.revoked_at is not None:
        return
    secrets.remember(workspace, TOKEN, "agent", plain)  # first: a token that nobody looks for is never handed out
    if known is None:
        _make_run_token(workspace, run, plain)
    else:
        Token.objects.filter(pk=known.pk, revoked_at=None).update(expires_at=_good_until())


@transaction.atomic
def _make_run_token(workspace: Workspace, run: Run, plain: str):
    agent = agent_of(workspace)
    how = {"expires_at": _good_until(), "scopes": [RUN], "plain": plain}
    make_token(workspace.team, agent=agent, workspace=workspace, **how)
    lifecycle.record(workspace, Actor.system("runner"), "run.token_made", {"run": str(run.pk), "agent": agent.name})


def variables_of_phase(workspace: Workspace, phase: str) -> dict[str, str]:
    """HANDRAIL_TOKEN for the programs of the agent phase (settings.HANDRAIL_PHASE_ENV)."""
    run = Run.objects.filter(workspace=workspace, ended_at=None).first()
    if phase != "agent" or run is None or not is_led(workspace):
        return {}
    return {TOKEN: _plain_of(run)}


def _good_until():
    return clock.now() + timedelta(hours=TOKEN_HOURS)


def _run_tokens(workspace_id, tokens):
    # JSON columns are never queried: the few tokens of one workspace that nobody has revoked are read.
    found = [token.pk for token in tokens.filter(workspace=workspace_id) if RUN in token.scopes]
    return Token.objects.filter(pk__in=found)


def extend_run_tokens(workspace_id):
    _run_tokens(workspace_id, Token.objects.live()).update(expires_at=_good_until())


def revoke_run_tokens(workspace_id):
    """From now on nothing takes them, so a file that holds one is a file like any other."""
    with transaction.atomic():
        _run_tokens(workspace_id, Token.objects.filter(revoked_at=None)).update(revoked_at=clock.now())
        secrets.forget(workspace_id, TOKEN)


def suspend_run_tokens(workspace_id):
    """Nothing takes them while the programs that have them sleep; they are good again when these go on."""
    with transaction.atomic():
        _run_tokens(workspace_id, Token.objects.live()).update(expires_at=clock.now())
        secrets.forget(workspace_id, TOKEN)


def sweep():
    """However a Run ended: its token ends too."""
    up = Run.objects.filter(ended_at=None).values("workspace")
    left = Token.objects.live().exclude(workspace=None).exclude(workspace__in=up)
    Token.objects.filter(pk__in=[token.pk for token in left if RUN in token.scopes]).update(revoked_at=clock.now())

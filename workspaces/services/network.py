"""Network access of a workspace: its environment's allow lists, hosts that people allowed, and counted attempts."""

from datetime import UTC, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import conflict, invalid
from dashboard.web import lookup
from workspaces import lifecycle, operations
from workspaces.egress.attempts import Attempt, Block, BlockCode
from workspaces.egress.http_rules import Line, read_line
from workspaces.egress.names import HANDRAIL, BadName, Rule, read_rule
from workspaces.egress.passes import proxy_address
from workspaces.models import Allowance, Contact, EgressDay, Environment, Operation, Run, Workspace
from workspaces.operations import needs_approval
from workspaces.services import environments

PHASES = environments.PHASES
SCOPES = ("once", "workspace", "environment")
SCOPE_WORDS = {"once": "once", "workspace": "for this workspace", "environment": "with its environment"}
MAX_CONTACT_ROWS = 300  # per workspace; further hosts are counted together
OTHER_HOSTS = "(other hosts)"
MAX_BLOCK_EVENTS = 50  # blocked hosts per workspace that get an event
NOT_LISTED = Block(BlockCode.NOT_LISTED, "not an allowed host")
PROXY = "http://127.0.0.1:3128"
URL = f"http://{HANDRAIL}"
MAX_ALLOWANCES = 200


def has_managed_network(workspace) -> bool:
    """Return True if Handrail controls its network: a connected folder has the user's, unless its calls are held."""
    return reaches_handrail(workspace) or workspace.held


def reaches_handrail(workspace) -> bool:
    """Return True if its programs may ask Handrail itself; in the box of a connected folder they may not."""
    return workspace.environment.capabilities.network


def environment_variables(workspace, token: str = "") -> dict[str, str]:
    """Return the environment variables of every program in a Run; git, pip, npm, curl and Node use the proxy by them.

    With the `token` of a pass, those of the one program that has it. NO_PROXY names only what no client misreads: some
    fail at an IPv6 address, and a host name there also stands for all names that end in it. What is for another name of
    the own loopback, the proxy hands back.
    """
    own = {"HANDRAIL_URL": URL} if reaches_handrail(workspace) else {}
    around = ",".join([*([HANDRAIL] if own else []), "localhost", "127.0.0.1", "127.0.0.0/8", "0.0.0.0"])
    proxy = proxy_address(PROXY, token) if token else PROXY
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": around}
    node = {"NODE_USE_ENV_PROXY": "1"}  # without which Node's fetch and http leave them alone
    return names | {name.lower(): value for name, value in names.items()} | node | own


# Lists ---------------------------------------------------------------------------------------------------------------


def lines(environment: Environment, phase: str) -> list[Line]:
    """Return the environment's lines for a phase; one that cannot be read, or held to, allows nothing."""
    found = []
    for text in environment.egress.get(phase) or []:
        try:
            found.append(read_line(str(text)))
        except BadName:
            continue
    opens = phase == "agent" and environment.capabilities.network
    return [line for line in found if opens or line.scope is None]


def listed(environment: Environment, phase: str) -> list[Rule]:
    """Return the hosts that the environment allows in a phase."""
    return [line.rule for line in lines(environment, phase)]


def agent_rules(workspace) -> list[str]:
    """Return the hosts that the workspace's agent may reach now, as rules: example.org or *.example.org, [:port]."""
    more = _open_allowances(workspace.pk, "agent").values_list("rule", flat=True)
    return [*map(str, listed(workspace.environment, "agent")), *more]


def allowed_in(workspaces) -> dict:
    """Return {workspace id: hosts that people allowed its agent, beside its environment's} in one query."""
    found: dict = {}
    for place, rule in _in_force(workspace__in=workspaces, phase="agent").values_list("workspace", "rule"):
        found.setdefault(place, []).append(rule)
    return found


def _open_allowances(workspace_id, phase: str):
    return _in_force(workspace=workspace_id, phase=phase)


def _in_force(**where):
    rows = Allowance.objects.filter(**where, ended_at=None)
    return rows.filter(Q(expires_at=None) | Q(expires_at__gt=clock.now())).order_by("created_at")


def why_blocked(workspace_id, phase: str, host: str, port: int) -> Block | None:
    """Return None if the host may be reached now, else the reason why not."""
    environment = Environment.objects.get(workspaces=workspace_id)
    if any(rule.allows(host, port) for rule in listed(environment, phase)):
        return None
    allowed = any(read_rule(one.rule).allows(host, port) for one in _open_allowances(workspace_id, phase))
    return None if allowed else NOT_LISTED


def use(workspace_id, phase: str, host: str, port: int) -> tuple[Block | None, bool]:
    """Return (reason as of `why_blocked`, whether the connection ends with its allowance).

    Uses up an allowance of scope "once", whose connection does not end with it.
    """
    environment = Environment.objects.get(workspaces=workspace_id)
    if any(rule.allows(host, port) for rule in listed(environment, phase)):
        return None, True
    fitting = [one for one in _open_allowances(workspace_id, phase) if read_rule(one.rule).allows(host, port)]
    if any(one.scope != "once" for one in fitting):
        return None, True
    for one in fitting:
        if Allowance.objects.filter(pk=one.pk, ended_at=None).update(ended_at=clock.now()):
            return None, False
    return NOT_LISTED, True


def no_longer_allowed(workspace_id, phase: str, targets: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the (host, port) targets that are no longer allowed."""
    rules = listed(Environment.objects.get(workspaces=workspace_id), phase)
    rules += [read_rule(one.rule) for one in _open_allowances(workspace_id, phase).exclude(scope="once")]
    return {(host, port) for host, port in targets if not any(rule.allows(host, port) for rule in rules)}


# Allowing ------------------------------------------------------------------------------------------------------------


def check_request(workspace, request: dict) -> dict:
    """Validate {host, port?, scope?, phase?} and return {host, scope, phase}, with the port in the host's rule.

    Problem 409 for a connected folder, 422 for an invalid request.
    """
    if not has_managed_network(workspace):
        raise conflict(f"{workspace.key} is your own folder with your own network; Handrail blocks nothing there.")
    scope, phase = request.get("scope") or "workspace", request.get("phase") or "agent"
    if scope not in SCOPES or phase not in PHASES:
        raise invalid(f"The scope is one of {', '.join(SCOPES)}, and the phase one of {', '.join(PHASES)}.")
    port = request.get("port")
    try:
        rule = read_rule(f"{request['host']}:{port}" if port else request["host"])
    except BadName as error:
        raise invalid(str(error)) from None
    if rule.below and scope == "once":
        raise invalid("A wildcard can't be allowed once; name one host.")
    if any(line.scope and line.rule == rule for line in lines(workspace.environment, phase)):
        raise conflict(f"{rule} is on the list with methods: a request that they do not cover asks by itself.")
    return {"host": str(rule), "scope": scope, "phase": phase}


def allow(workspace: Workspace, request: dict, *, by: Actor, pk=None) -> Allowance:
    """Allow a host from now on, without a restart. An existing allowance with this `pk` is returned.

    `request` as returned by `check_request`. The scope "environment" allows it for this workspace and adds it to the
    next version of its environment. A snapshot is taken first.
    """
    needs_approval.require(workspace, "allow", request, by=by, always=True)
    if not (pk and Allowance.objects.filter(pk=pk).exists()):
        lifecycle.snapshot_before(workspace, f"{request['host']} was allowed", by=by)
    return _allow(workspace, request, by=by, pk=pk)


@transaction.atomic
def _allow(workspace: Workspace, request: dict, *, by: Actor, pk) -> Allowance:
    Team.objects.take_turn(workspace.team_id)
    if pk and (known := Allowance.objects.filter(pk=pk).first()):
        return known
    if workspace.allowances.filter(ended_at=None).count() >= MAX_ALLOWANCES:
        raise conflict(
            f"{workspace.key} has {MAX_ALLOWANCES} hosts allowed already; add them to its environment instead."
        )
    if request["scope"] == "environment":
        _add_to_environment(workspace.environment, request, by)
    now = clock.now()
    made = Allowance.objects.create(
        **({"pk": pk} if pk else {}),
        workspace=workspace,
        rule=request["host"],
        phase=request["phase"],
        scope=request["scope"],
        by=by.as_json,
        created_at=now,
        expires_at=now + timedelta(seconds=settings.HANDRAIL_CONSUME_SECONDS) if request["scope"] == "once" else None,
    )
    reason = f"{made.rule}, {SCOPE_WORDS[made.scope]}"
    lifecycle.record(workspace, by, "network.allowed", {**request, "reason": reason, "allowance": str(made.pk)})
    transaction.on_commit(operations.wake_runner)  # whose proxy remembers for a moment that the host was blocked
    return made


def _add_to_environment(environment: Environment, request: dict, by: Actor):
    latest = environments.newest_of(environment)
    lists = {phase: list(latest.egress.get(phase) or []) for phase in PHASES}
    if request["host"] not in lists[request["phase"]]:
        lists[request["phase"]].append(request["host"])
        environments.save(latest.team, latest.name, {"egress": lists}, base=latest, by=by)


def submit_allow(workspace: Workspace, request: dict, *, by: Actor) -> Operation:
    """Submit an operation that allows the host, for an approved action."""
    return operations.submit("allow_host", workspace=workspace, by=by, args=check_request(workspace, request))


def find_allowance(workspace: Workspace, pk) -> Allowance:
    """Return the workspace's allowance with this id. Problem 404 if there is none."""
    return lookup.find(workspace.allowances, pk, "allowance")


@transaction.atomic
def revoke(allowance: Allowance, *, by: Actor):
    """Revoke an allowance, also for open connections. The environment's list keeps the host; its page changes that."""
    Team.objects.take_turn(allowance.workspace.team_id)
    if Allowance.objects.filter(pk=allowance.pk, ended_at=None).update(ended_at=clock.now()):
        lifecycle.record(allowance.workspace, by, "network.revoked", {"host": allowance.rule, "reason": allowance.rule})


# Counting attempts ---------------------------------------------------------------------------------------------------


def count(workspace_id, phase: str, attempt: Attempt, times: int, at):
    """Add to the row of such attempts, or create it. Only the workspace's runner calls this."""
    key = {
        "workspace_id": workspace_id,
        "phase": phase,
        "host": attempt.host[:253].replace("\0", "\ufffd"),
        "port": attempt.port,
        "method": attempt.method[:16],
        "allowed": attempt.allowed,
        **_block_fields(attempt.block),
    }
    with Team.objects.turn(*Workspace.objects.filter(pk=workspace_id).values_list("team_id", flat=True)):
        _add_to_day(workspace_id, attempt, at)
        if _add(key, attempt, times, at):
            return
        if Contact.objects.filter(workspace=workspace_id).count() >= MAX_CONTACT_ROWS:
            block = None if attempt.allowed else NOT_LISTED
            key |= {"host": OTHER_HOSTS, "port": 0, "method": "", **_block_fields(block)}
            if _add(key, attempt, times, at):
                return
        made = Contact.objects.create(
            **key, first_at=at, last_at=at, count=times, sent=attempt.sent, received=attempt.received
        )
        if not made.allowed and made.code != BlockCode.UNRESOLVED:
            _record_block(made)


def _block_fields(block: Block | None) -> dict:
    return {"code": str(block.code), "why": block.message[:200]} if block else {"code": "", "why": ""}


def _add(key: dict, attempt: Attempt, times: int, at) -> int:
    more = {"count": F("count") + times, "sent": F("sent") + attempt.sent, "received": F("received") + attempt.received}
    named = {name: value for name, value in key.items() if name != "code"}  # rows of before codes have none
    return Contact.objects.filter(**named).update(**more, code=key["code"], last_at=at)


def _add_to_day(workspace_id, attempt: Attempt, at):
    if attempt.sent or attempt.received:
        row = EgressDay.objects.get_or_create(workspace_id=workspace_id, day=at.astimezone(UTC).date())[0]
        more = {"sent": F("sent") + attempt.sent, "received": F("received") + attempt.received}
        EgressDay.objects.filter(pk=row.pk).update(**more)


def _record_block(made: Contact):
    """Record an event for the first blocked attempt at a host, for MAX_BLOCK_EVENTS hosts; the page has the counts."""
    blocked = Contact.objects.filter(workspace=made.workspace_id, allowed=False)
    if made.host and blocked.count() <= MAX_BLOCK_EVENTS and blocked.filter(host=made.host).count() == 1:
        reason = f"{made.host}:{made.port}: {made.why}"
        data = {"host": made.host, "port": made.port, "phase": made.phase, "reason": reason}
        lifecycle.record(made.workspace, Actor.system("proxy"), "network.blocked", data)


# For the API and the page --------------------------------------------------------------------------------------------


def phase_of(workspace: Workspace) -> str:
    return "setup" if workspace.state in ("creating", "setting_up") else "agent"


def state_of(workspace: Workspace) -> dict:
    """Return the network state of a workspace: lists, allowances, and blocked and allowed attempts."""
    rows = list(workspace.contacts.order_by("-last_at")[: MAX_CONTACT_ROWS + 2])
    allowances = list(workspace.allowances.order_by("-created_at")[:50])
    environment = workspace.environment
    held = {phase: listed(environment, phase) for phase in PHASES}
    for phase in PHASES:
        lasting = _open_allowances(workspace.pk, phase).exclude(scope="once")
        held[phase] += [read_rule(one.rule) for one in lasting]
    for row in rows:
        row.now_allowed = not row.allowed and any(rule.allows(row.host, row.port) for rule in held[row.phase])
        row.can_be_asked = row.code == BlockCode.NOT_LISTED and row.host != OTHER_HOSTS and not row.now_allowed
    run = Run.objects.filter(workspace=workspace, ended_at=None).first()
    return {
        "has_managed_network": has_managed_network(workspace),
        "phase": phase_of(workspace),
        "lists": {phase: [str(line) for line in lines(environment, phase)] for phase in PHASES},
        "allowances": allowances,
        "blocked": [row for row in rows if not row.allowed and row.code != BlockCode.UNRESOLVED],
        "unresolved": [row for row in rows if row.code == BlockCode.UNRESOLVED],
        "allowed": [row for row in rows if row.allowed],
        "trouble": run.network if run else "",
        "ports": run.forwarded if run else [],
        "host_ports": workspace.host_ports,
    }

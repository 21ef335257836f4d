"""What is there of an agent that a team wants Handrail to start: program, key, environment, trial.

Nothing is noted about the steps themselves: each is read from what it leaves, whichever way that came to be.
"""

import shutil
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings

from approvals.agent_runs import trials
from approvals.agent_runs.model_relay.providers import PROVIDERS
from approvals.agents.programs import LAUNCHERS
from approvals.models import AgentTrial, TrialState
from dashboard.models import Actor, Membership, Role, Team
from dashboard.problems import conflict, invalid
from workspaces import secrets
from workspaces.drivers import capabilities
from workspaces.models import Environment, Operation, Scope, Secret
from workspaces.provisioning import agent_programs, isolation, model_access
from workspaces.provisioning.agent_programs import Program
from workspaces.services import agent_installs, environments

MISSING = "missing"  # beside the states of a secret
KEY_LENGTHS = (20, 400)  # characters of a provider's key, at least and at most
NEW_NAME = "agents"  # of an environment that is made for agents, unless another name is given


@dataclass
class SetUp:
    """How far an agent is set up in a team."""

    team: Team
    program: Program

    @cached_property
    def versions(self) -> list[str]:
        """The versions that are installed on this host, the newest first."""
        return agent_programs.versions_of(self.program)

    @cached_property
    def named(self) -> str:
        """NAME@VERSION that is installed on this host, "" if none is."""
        return agent_programs.best_of(self.program)

    @cached_property
    def folder(self) -> str:
        """Where the installed program is on the host."""
        program, version = agent_programs.parse(self.named)
        return str(agent_programs.folder_of(program, version))

    @cached_property
    def install(self) -> Operation | None:
        """The newest operation that installs the version that Handrail is tried with."""
        return agent_installs.last(self.team.pk, self.program)

    @property
    def is_installing(self) -> bool:
        return self.install is not None and self.install.phase not in ("settled", "uncertain")

    @property
    def why_not_installed(self) -> str:
        """Why the last installation failed, "" if none did or the program is there all the same."""
        outcome = self.install.outcome if self.install and not self.named and not self.is_installing else None
        return "" if outcome is None or outcome.get("ok") else outcome.get("reason", "")

    @property
    def installed_bytes(self) -> int:
        """How much npm has written for the installation that is under way."""
        return self.install.progress.get("bytes", 0) if self.is_installing else 0

    @property
    def can_install(self) -> bool:
        return shutil.which("npm") is not None

    @cached_property
    def environments(self) -> list[Environment]:
        """The newest versions of environments in which Handrail may start the agent."""
        rows = environments.newest_versions([self.team.pk]).to_make_from().exclude(agent_programs=[]).order_by("name")
        return [each for each in rows if self._has_agent(each)]

    def _has_agent(self, environment: Environment) -> bool:
        named = {each.partition("@")[0] for each in environment.agent_programs}
        provider = self.program.provider in environment.model_access
        own = set(LAUNCHERS[self.program.name].own_keys) & set(environment.secrets.get("agent", ()))
        return self.program.name in named and environment.capabilities.agent_programs and (provider or bool(own))

    @cached_property
    def key_name(self) -> str:
        """The name of the secret with the provider's key: as an environment has it, else the usual one."""
        access = (each.model_access.get(self.program.provider) for each in self.environments)
        return next((each["secret"] for each in access if each), self.program.key_name)

    @cached_property
    def key(self) -> Secret | None:
        return Secret.objects.filter(team=self.team, name=self.key_name, scope=Scope.MODELS).first()

    @cached_property
    def key_state(self) -> str:
        """How the key is: MISSING or a state of `secrets.state`."""
        return secrets.state(self.key) if self.key else MISSING

    @property
    def needs_no_key(self) -> bool:
        """Whether an environment gives the agent's program a login or key of its own, without the relay."""
        relayed = any(self.program.provider in each.model_access for each in self.environments)
        return bool(self.environments) and not relayed

    @property
    def has_key(self) -> bool:
        return self.needs_no_key or self.key_state == secrets.SET

    @cached_property
    def trial(self) -> AgentTrial | None:
        """The newest trial of the agent in one of these environments."""
        return trials.last(self.team.pk, self.program.name, [each.name for each in self.environments])

    @property
    def is_trying(self) -> bool:
        return self.trial is not None and self.trial.state == TrialState.RUNNING

    @property
    def is_tried(self) -> bool:
        """Whether the gate held the program in the version that an environment names now."""
        named = {each for environment in self.environments for each in environment.agent_programs}
        return self.trial is not None and self.trial.state == TrialState.HELD and self.trial.program in named

    @property
    def is_ready(self) -> bool:
        """Whether a run can be started."""
        return bool(self.named and self.has_key and self.environments)

    @property
    def steps(self) -> dict[str, bool]:
        """The steps in order, and whether each is done."""
        return {
            "program": bool(self.named),
            "key": self.has_key,
            "environment": bool(self.environments),
            "trial": self.is_tried,
        }

    @property
    def next_step(self) -> str:
        """The first step that is not done, "" if all are."""
        return next((name for name, is_done in self.steps.items() if not is_done), "")

    @property
    def model(self) -> str:
        """The model that is asked unless a run names another."""
        named = (model_access.first_model(each.model_access, self.program.provider) for each in self.environments)
        return next(filter(None, named), self.program.models[0])


def find(team: Team, name: str) -> SetUp:
    """Return how far the agent is set up. Problem 404 for one that Handrail can't start."""
    return SetUp(team, agent_programs.find(name))


def check_key(program: Program, value: str) -> str:
    """Return the key without blanks around it. Problem 422 for what is no key of the provider by its form."""
    value = value.strip()
    least, most = KEY_LENGTHS
    if any(not each.isprintable() or each.isspace() for each in value) or not value.isascii():
        raise invalid("A key has no spaces, line breaks or letters with accents. Copy it again.", field="value")
    if not least <= len(value) <= most:
        raise invalid(f"A key has {least} to {most} characters; this has {len(value)}. Copy it again.", field="value")
    if not uses_gateway(program) and not value.startswith(program.key_form):
        words = f"A key of {PROVIDERS[program.provider].title} begins with {program.key_form}."
        raise invalid(f"{words} This one does not.", field="value")
    return value


def uses_gateway(program: Program) -> bool:
    """Return whether the operator sends the provider's requests to a gateway, whose keys may have another form."""
    return program.provider in settings.HANDRAIL_MODEL_UPSTREAMS


def save_key(found: SetUp, value: str, *, by: Actor) -> Secret:
    """Keep the provider's key for the model relay, in place of an earlier one. Problem 422."""
    value = check_key(found.program, value)
    return secrets.save(found.team, found.key_name, Scope.MODELS, value, by=by, replace=True)


def driver_for_agents() -> str:
    """Return the driver of a new environment for agents. Problem 409 if no host has one."""
    able = capabilities.drivers_with(agent_programs=True)
    for driver in isolation.available():
        if driver in able:
            return driver
    raise conflict(f"Agents are started in workspaces of {' and '.join(able)}, and no host offers these. See Status.")


def save_environment(found: SetUp, name: str, *, repository: str = "", ref: str = "", by: Actor) -> Environment:
    """Make an environment for the agent, with the defaults for everything else. Problem 409, 422."""
    fields = {"driver": driver_for_agents(), "repository": repository, "ref": ref} | _agent_fields(found, None)
    return environments.save(found.team, name, fields, base=None, by=by)


def add_to_environment(found: SetUp, base: Environment, *, by: Actor) -> Environment:
    """Save the next version of an environment, in which Handrail may start the agent too. Problem 409, 422."""
    if not base.capabilities.agent_programs:
        able = " and ".join(capabilities.drivers_with(agent_programs=True))
        raise conflict(f"Handrail starts agents in workspaces of {able}, not of {base.driver}.")
    return environments.save(found.team, base.name, _agent_fields(found, base), base=base, by=by)


def _agent_fields(found: SetUp, base: Environment | None) -> dict:
    """Return the columns that let Handrail start the agent; what `base` names of other agents and models stays."""
    if not found.named:
        raise conflict(f"Install {found.program.title} first.")
    others = [each for each in base.agent_programs if each.partition("@")[0] != found.program.name] if base else []
    access = dict(base.model_access) if base else {}
    access.setdefault(found.program.provider, {"secret": found.key_name, "models": list(found.program.models)})
    return {"agent_programs": [*others, found.named], "model_access": access}


def could_take(found: SetUp) -> list[Environment]:
    """Return the newest versions of environments that the agent can be added to."""
    able = capabilities.drivers_with(agent_programs=True)
    rows = environments.newest_versions([found.team.pk]).to_make_from().filter(driver__in=able).order_by("name")
    return [each for each in rows if each not in found.environments]


def who_may(team: Team) -> list[str]:
    """Return the names of the leads and admins of the team, who may take the steps."""
    rows = Membership.objects.filter(team=team, role__in=(Role.LEAD, Role.ADMIN), user__is_active=True)
    return sorted(row.user.get_username() for row in rows.select_related("user"))

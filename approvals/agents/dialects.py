"""The table of dialects: one for each agent, under the contract in `dialect.py`."""

from approvals.agents import parts
from approvals.agents.acp.dialect import ACP
from approvals.agents.dialect import Dialect

DIALECTS: dict[str, Dialect] = {agent: part.DIALECT for agent, part in parts("dialect").items()}
ALL = tuple(DIALECTS.values())
CLIENT_DIALECTS = {ACP.name: ACP()}  # an agent's client asks, not its hook; `connect` has no entry for them
DEFAULT = ALL[0]  # whose shape a denial has when the agent is not known


def find(name: str) -> Dialect | None:
    """Return the dialect of this name, None if there is none."""
    return DIALECTS.get(name) or CLIENT_DIALECTS.get(name)


def of_path(path: str) -> Dialect:
    """Return the dialect of an address below /hooks/, the default one if it names none."""
    return find(path.partition("?")[0].rpartition("/")[2]) or DEFAULT

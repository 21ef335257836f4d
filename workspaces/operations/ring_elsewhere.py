"""Give the keys of a rotated ring to the other hosts of the installation, through their runners."""

from collections.abc import Sequence

from dashboard.keys import keyring
from dashboard.problems import Problem
from workspaces.host import leads, same_keys
from workspaces.models import Runner
from workspaces.operations import runner_client

TIMEOUT_S = 30.0
WORDS = (
    "{host} cannot be given the new key: {why}. Start it and run this again; or `manage.py host remove {host}`; "
    "or give `--without {host}`, and copy keys/ring there before it starts."
)


class NotGiven(Exception):
    """A host cannot be given the keys; the text can be shown."""


class OtherHosts:
    """The members of the installation besides this host; those of `without` are left to their operator."""

    def __init__(self, without: Sequence[str] = ()):
        self._without = set(without)

    def hand_on(self, keys: Sequence[keyring.Key], *, first: bool = False, only: bool = False):
        """Add keys to the ring of each host, as `rotation.HandOn` says. Raise NotGiven at the first that lacks them."""
        same_keys.note()
        for row in Runner.objects.members().exclude(host__in=self._without).order_by("host"):
            if (lead := leads.of_row(row)) is None:
                continue
            try:
                if not lead.address:
                    raise Problem(503, "it has no HANDRAIL_RUNNER_ADDRESS")
                how = {"first": int(first), "only": int(only)}
                body = keyring.written(keys).encode()
                runner_client.ask_runner("PUT", lead, "/ring", body=body, timeout=TIMEOUT_S, **how)
            except Problem as problem:
                raise NotGiven(WORDS.format(host=row.host, why=problem.detail.rstrip("."))) from None

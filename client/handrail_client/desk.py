"""The desk, as a program uses it."""

from handrail_client.actions import GRACE, Actions
from handrail_client.connection import Connection
from handrail_client.documents import Documents
from handrail_client.http import TIMEOUT, Http
from handrail_client.sessions import Sessions
from handrail_client.workspaces import Workspaces


class Handrail(Actions):
    """One desk with one token: permission here, and `workspaces`, `sessions` and `documents`.

    Without arguments the connection comes from the environment (HANDRAIL_URL, HANDRAIL_TOKEN, HANDRAIL_WORKSPACE,
    or HANDRAIL_CONNECTION). `grace` is how many seconds a question looks for the desk before it gives up; once the
    desk has a question, waiting for its answer has no end.
    """

    def __init__(self, connection: Connection | None = None, *, grace: float = GRACE, timeout: float = TIMEOUT):
        self.connection = connection or Connection.from_environment()
        super().__init__(Http(self.connection, timeout=timeout), workspace=self.connection.workspace, grace=grace)
        self.workspaces = Workspaces(self.http, self)
        self.sessions = Sessions(self.http)
        self.documents = Documents(self.http)

    def me(self) -> dict:
        """Return whom the token speaks for: {"type", "name", "teams"}."""
        return self.http.get("/me")

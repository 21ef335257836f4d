"""JSON documents that an agent keeps at the desk."""

from dataclasses import dataclass, field

from handrail_client.errors import HandrailError, Refused
from handrail_client.http import Http


class Changed(HandrailError):
    """The document has another version at the desk than the one that was to be replaced."""


@dataclass(frozen=True)
class Document:
    """One version of a document; the desk gives each write another `version`."""

    version: str
    body: dict = field(repr=False)


class Documents:
    """The documents of one agent; with a token that is bound to a workspace, those of the agent there."""

    def __init__(self, http: Http):
        self.http = http

    def get(self, name: str) -> Document | None:
        """Return the document, None if there is none."""
        try:
            told = self.http.get(f"/documents/{name}")
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        return Document(told["version"], told["body"])

    def versions(self) -> dict[str, str]:
        """Return {name: version} of all documents."""
        return {each["name"]: each["version"] for each in self.http.get("/documents")["documents"]}

    def put(self, name: str, body: dict, *, seen: str = "") -> str:
        """Replace the version `seen`, "" for a new document; return its version. Changed if it has another one."""
        try:
            return self.http.json("PUT", f"/documents/{name}", {"body": body, "seen": seen})["version"]
        except Refused as refused:
            if refused.code == "document_changed":
                raise Changed(str(refused)) from None
            raise

"""Read the setting of an external decision point. Imports only the standard library, as the settings use it."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class DecisionPoint:
    """`kind` is cedar or opa; `place` the path of a file with Cedar policies, or the address of a document of OPA."""

    kind: str
    place: str

    @property
    def name(self) -> str:
        return {"cedar": "Cedar", "opa": "OPA"}[self.kind]


def read_decision_point(text: str) -> DecisionPoint | None:
    """Parse `cedar:/path` or `opa:http://host/v1/data/…`; None for an empty text. ValueError says what is wrong."""
    if not text:
        return None
    kind, _, place = text.partition(":")
    if kind == "cedar":
        if not Path(place).is_absolute() or not Path(place).is_file():
            raise ValueError(f"{place!r} is not the absolute path of a file")
        if find_spec("cedarpy") is None:
            raise ValueError("the package cedarpy is not installed (pip install handrail[cedar])")
    elif kind == "opa":
        parts = urlsplit(place)
        _ = parts.port  # ValueError if it is no number
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or " " in place:
            raise ValueError(f"{place!r} is not an address of http or https")
        if not parts.path.startswith("/v1/data/") or parts.query or parts.fragment:
            raise ValueError("its path must begin with /v1/data/, and it takes no query")
    else:
        raise ValueError("it begins with neither cedar: nor opa:")
    return DecisionPoint(kind, place)

"""Plain requests to an API server, with what a kubeconfig of `pki.py` holds."""

import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

ANSWERS_S = 30


class Api:
    def __init__(self, kubeconfig: Path):
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w") as pair:  # ssl reads a private key from a file alone
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def ask(self, path: str, body: dict | None = None, *, method: str = "") -> tuple[int, dict | str]:
        """Return the status and what was answered, parsed if it is JSON; OSError if nothing answers."""
        connection = http.client.HTTPSConnection(
            self._server.hostname, self._server.port, timeout=ANSWERS_S, context=self._tls
        )
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json"} if content else {}
            connection.request(method or ("GET" if body is None else "POST"), path, content, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.status, json.loads(text) if is_json else text


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()

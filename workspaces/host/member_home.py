"""Make this HANDRAIL_HOME that of a new member: ask the desk once, and keep its keys and settings here."""

import http.client
import json
import urllib.error
import urllib.request
from base64 import b64decode
from urllib.parse import urlsplit

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.text.setting_values import given
from workspaces.host import identity, join_tokens, same_keys

PATH = "/hosts/join"
TIMEOUT = 30.0  # seconds
# What a HANDRAIL_HOME has that was started once; keys/secret_key alone is there as soon as settings were read.
OF_AN_INSTALLATION = ("handrail.sqlite3", "workspaces", "stores", "runner", "keys/ring", "keys/log", "keys/vapid")
NO_DESK = "{url} answered {status}, not as a desk of Handrail does."
HEAD = "# Given to this host by {url} when it joined. Variables of the environment come first.\n"


class JoinRefused(Exception):
    """The host cannot join, or is not let in; the text can be shown."""


def refuse_used():
    """Raise JoinRefused for a HANDRAIL_HOME that is a member already, or has data of its own."""
    home = settings.HANDRAIL_HOME
    if settings.HANDRAIL_MEMBER_FILE.exists():
        raise JoinRefused(f"{home} is the home of a member already: of {settings.HANDRAIL_HOST_NAME}. Run `make up`.")
    if found := [name for name in OF_AN_INSTALLATION if (home / name).exists()]:
        raise JoinRefused(
            f"{home} has data of an installation of its own ({', '.join(found)}), which would be cut off. Give the new "
            "host an empty HANDRAIL_HOME."
        )


def join(url: str, text: str) -> dict:
    """Ask the desk at `url` with the token, write what it gives, and return its settings. Raise JoinRefused."""
    refuse_used()
    try:
        token = join_tokens.read(text)
        channel, public_key = join_tokens.of_new_host(token)
        question = {
            "secret": token.secret.hex(),
            "host": given().get("HANDRAIL_HOST_NAME", ""),
            "installation": identity.installation(),
            "home": str(settings.HANDRAIL_HOME),
            "version": identity.code_version(),
        }
        body = {"code": token.code, "public_key": public_key, "sealed": channel.seal(question, join_tokens.ASK)}
        given_here = channel.open(_post(url, body)["sealed"], join_tokens.ANSWER)
    except (join_tokens.BadToken, ValueError) as error:
        raise JoinRefused(str(error)) from None
    _write(url, given_here)
    return given_here["settings"]


def _post(url: str, body: dict) -> dict:
    """Return the desk's answer. Raise JoinRefused with the sentence of its refusal."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise JoinRefused(f"{url} is no http or https address: copy the whole line of `manage.py host add`.")
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url.rstrip("/") + PATH, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as told:
            return {"sealed": str(json.loads(told.read())["sealed"])}
    except urllib.error.HTTPError as refused:
        with refused:
            raise JoinRefused(_detail(refused)) from None
    except (OSError, http.client.HTTPException) as error:
        raise JoinRefused(f"{url} does not answer: {getattr(error, 'reason', error)}. Nothing was changed.") from None
    except (ValueError, KeyError, TypeError):
        raise JoinRefused(NO_DESK.format(url=asked.full_url, status=200)) from None


def _detail(refused: urllib.error.HTTPError) -> str:
    try:
        return json.loads(refused.read())["detail"]
    except (ValueError, KeyError, TypeError):
        return NO_DESK.format(url=refused.url, status=refused.code)


def _write(url: str, answer: dict):
    """Write keys and settings, each 0600; the settings last, since they make this a member."""
    try:
        same_keys.write({name: b64decode(key) for name, key in answer["keys"].items()})
    except ValueError as error:
        raise JoinRefused(f"{url} gave a key that cannot be kept: {error}.") from None
    lines = (f"{name}={value}\n" for name, value in sorted(answer["settings"].items()))
    replace_file(settings.HANDRAIL_MEMBER_FILE, (HEAD.format(url=url) + "".join(lines)).encode())

"""A real OpenID Connect provider on this machine, of Authlib's server parts: codes, PKCE, nonces, signed ID tokens.

`tamper` changes the claims of the next ID tokens, and `sign_with` signs them with a key that is not published.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from urllib.parse import parse_qsl, urlsplit

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Error, OAuth2Request
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from joserfc import jwk

CLIENT_ID, CLIENT_SECRET = "handrail", "the client's secret"
KEY = jwk.RSAKey.generate_key(2048, {"kid": "published", "use": "sig", "alg": "RS256"})
UNPUBLISHED = jwk.RSAKey.generate_key(2048, {"kid": "published", "use": "sig", "alg": "RS256"})


class Client(ClientMixin):
    client_id = CLIENT_ID

    def __init__(self, callback):
        self.callback = callback

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return self.callback

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri == self.callback

    def check_client_secret(self, client_secret):
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method in ("client_secret_post", "client_secret_basic")

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type == "authorization_code"


class Code(AuthorizationCodeMixin):
    def __init__(self, request, code):
        asked = request.payload
        self.code, self.user, self.redirect_uri, self.scope = code, request.user, asked.redirect_uri, asked.scope
        self.nonce = asked.data.get("nonce")
        self.code_challenge = asked.data.get("code_challenge")
        self.code_challenge_method = asked.data.get("code_challenge_method")

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def get_nonce(self):
        return self.nonce

    def get_auth_time(self):
        return None

    def get_acr(self):
        return None

    def get_amr(self):
        return None


class CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_post", "client_secret_basic"]

    def save_authorization_code(self, code, request):
        self.server.idp.codes[code] = Code(request, code)

    def query_authorization_code(self, code, client):
        return self.server.idp.codes.get(code)

    def delete_authorization_code(self, authorization_code):
        del self.server.idp.codes[authorization_code.code]

    def authenticate_user(self, authorization_code):
        return authorization_code.user


class IdTokens(OpenIDCode):
    def __init__(self, idp):
        super().__init__(require_nonce=True)
        self.idp = idp

    def exists_nonce(self, nonce, request):
        return nonce in self.idp.nonces or self.idp.nonces.add(nonce) is not None

    def get_encode_header(self, client):
        return {"alg": "RS256", "kid": "published"}

    def resolve_client_private_key(self, client):
        return self.idp.sign_with

    def get_client_claims(self, client):
        return {"iss": self.idp.issuer, "aud": [CLIENT_ID]}

    def generate_user_info(self, user, scope):
        return user | self.idp.tamper


class Server(AuthorizationServer):
    def __init__(self, idp):
        super().__init__()
        self.idp = idp
        self.register_token_generator("default", self._bearer)
        self.register_grant(CodeGrant, [CodeChallenge(required=True), IdTokens(idp)])

    def _bearer(self, grant_type, client, user=None, scope=None, **options):
        return {"token_type": "Bearer", "access_token": token_urlsafe(16), "expires_in": 300, "scope": scope}

    def query_client(self, client_id):
        return Client(self.idp.callback) if client_id == CLIENT_ID else None

    def save_token(self, token, request):
        self.idp.access[token["access_token"]] = request.user

    def send_signal(self, name, *args, **kwargs):
        pass

    def create_oauth2_request(self, request):
        return request

    def handle_response(self, status, body, headers):
        return status, body, headers


class Request(OAuth2Request):
    """An HTTP request as Authlib takes it; with https in its address, which it insists on."""

    def __init__(self, method, path, headers, body):
        super().__init__(method, f"https://idp.example{path}", headers=headers)
        self._query, self._form = dict(parse_qsl(urlsplit(path).query)), dict(parse_qsl(body))
        self.payload = BasicOAuth2Payload(self._query | self._form)

    @property
    def args(self):
        return self._query

    @property
    def form(self):
        return self._form


class Idp:
    """The provider. `person`: the claims of who is signed in there, None for one who cancels."""

    def __init__(self, callback: str):
        self.callback = callback
        self.codes, self.nonces, self.access = {}, set(), {}
        self.server = Server(self)
        self.reset()

    def reset(self):
        self.person, self.tamper, self.sign_with, self.userinfo, self.discovery = {}, {}, KEY, {}, {}

    def document(self) -> dict:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "end_session_endpoint": f"{self.issuer}/end",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        } | self.discovery

    def answer(self, request: Request, bearer: str):
        """Return (status, body, headers)."""
        path = urlsplit(request.uri).path
        if path == "/.well-known/openid-configuration":
            return 200, self.document(), []
        if path == "/jwks":
            return 200, {"keys": [KEY.as_dict(private=False)]}, []
        if path == "/userinfo":
            return (200, self.access[bearer] | self.userinfo, []) if bearer in self.access else (401, {}, [])
        if path == "/token":
            return self.server.create_token_response(request)
        try:
            grant = self.server.get_authorization_grant(request)
        except OAuth2Error as error:
            return 400, dict(error.get_body()), []
        return self.server.create_authorization_response(request, grant_user=self.person, grant=grant)


def _handler(idp: Idp):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            status, told, headers = idp.answer(Request(self.command, self.path, self.headers, body), bearer)
            data = json.dumps(told).encode()
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(data)))]:
                self.send_header(name, value)
            if not any(name == "Content-Type" for name, _ in headers):
                self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *args):
            pass

    return Handler


@contextmanager
def running(callback: str):
    """Run a provider on a free port of this machine; it takes sign-ins that come back to `callback`."""
    idp = Idp(callback)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(idp)) as server:
        idp.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield idp
        finally:
            server.shutdown()
            thread.join()

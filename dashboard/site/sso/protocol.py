"""OpenID Connect as a client: allauth's code flow with PKCE, plus the checks that it leaves out.

That is a nonce, the signature of the ID token even though it came over TLS, an issuer that is the one in the settings,
and a userinfo that is about the same person.
"""

import hashlib
import json
import re
import secrets
from urllib.parse import urlsplit

import jwt
from allauth.core.internal.httpkit import add_query_params
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.cache import cache
from django.urls import reverse

from dashboard.people import sso

# Public keys only: with an HMAC, whoever knows the client secret could sign.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
SUBJECT = re.compile(r"[\x20-\x7e]{1,255}")
REQUIRED = ["iss", "sub", "aud", "exp", "iat"]
DISCOVERY_KEPT = 300  # seconds
LEEWAY = 60  # seconds that the clocks of two machines may differ
MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # what reading an answer raises


def app_of(provider: sso.Provider) -> SocialApp:
    """Return the provider as allauth knows it; this row is never stored. Raise Unreadable for a lost key."""
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=sso.PROVIDER_ID,
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.secret(),
        settings={
            "server_url": provider.issuer,
            "scope": provider.scopes.split(),
            "oauth_pkce_enabled": True,
        },
    )


class OpenID(OpenIDConnectOAuth2Adapter):
    """One sign-in at the provider. A wrong answer of the provider raises OAuth2Error."""

    state: dict = {}

    @property
    def openid_config(self) -> dict:
        """Return the discovery document, kept for some minutes: a stranger's visit shall not cause a request each."""
        issuer = self.get_provider().app.settings["server_url"]
        found = cache.get(f"oidc:{issuer}")
        if found is None:
            try:
                found = super().openid_config
                told = str(found["issuer"])
            except MALFORMED as error:
                raise OAuth2Error("The discovery document can't be read.") from error
            if told.rstrip("/") != issuer.rstrip("/"):
                raise OAuth2Error(f"The discovery document is of another issuer: {told!r}.")
            cache.set(f"oidc:{issuer}", found, DISCOVERY_KEPT)
        return found

    def get_callback_url(self, request, app) -> str:
        return settings.HANDRAIL_DESK_URL + reverse("sso-callback")

    def get_access_token_data(self, request, app, client, pkce_code_verifier=None) -> dict:
        try:
            return super().get_access_token_data(request, app, client, pkce_code_verifier)
        except MALFORMED as error:
            raise OAuth2Error("The token endpoint's answer can't be read.") from error

    def complete_login(self, request, app, token, **kwargs):
        """Return the SocialLogin of checked claims: those of userinfo, and over them those of the ID token."""
        try:
            claims = self._decode_id_token(app, kwargs["response"]["id_token"])
            about = self._userinfo(token.token)
            if about and about["sub"] != claims["sub"]:
                raise OAuth2Error("The userinfo is about another person than the ID token.")
            return self.get_provider().sociallogin_from_response(request, about | claims)
        except MALFORMED as error:
            raise OAuth2Error("The answer of the identity provider can't be read.") from error

    def _userinfo(self, access_token: str) -> dict:
        return self._fetch_user_info(access_token) if self.openid_config.get("userinfo_endpoint") else {}

    def _decode_id_token(self, app, id_token: str) -> dict:
        try:
            claims = jwt.decode(
                id_token,
                self._key_of(id_token),
                algorithms=ALGORITHMS,
                issuer=self.openid_config["issuer"],
                audience=app.client_id,
                leeway=LEEWAY,
                options={"require": REQUIRED},
            )
        except jwt.PyJWTError as error:
            raise OAuth2Error(f"The ID token was refused: {error}") from error
        if not SUBJECT.fullmatch(claims["sub"]):
            raise OAuth2Error("The ID token names nobody.")
        if claims.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("The ID token was made for another client.")
        nonce = self.state.get("nonce")
        if not nonce or not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise OAuth2Error("The ID token has not the nonce of this sign-in.")
        return claims

    def _key_of(self, id_token: str) -> jwt.PyJWK:
        """Return the provider's key that the token names; the only one if it names none."""
        named = jwt.get_unverified_header(id_token).get("kid")
        keys = jwt.PyJWKSet.from_dict(self._fetch(self.openid_config["jwks_uri"])).keys
        found = [key for key in keys if key.key_id == named] if named else keys
        if len(found) != 1:
            raise OAuth2Error("The identity provider publishes no such key.")
        return found[0]

    def _fetch(self, url: str) -> dict:
        with get_adapter().get_requests_session() as session:
            response = session.get(url)
            response.raise_for_status()
            return response.json()


class OpenIDCallback(OAuth2CallbackView):
    """Hands the state of this sign-in, which can be taken once, to the adapter that checks the nonce."""

    def _get_state(self, request, provider):
        state, response = super()._get_state(request, provider)
        self.adapter.state = state or {}
        return state, response


class SingleSignOn(OpenIDConnectProvider):
    """Give allauth the identity in the claims, and the claims. Accounts and roles are made in adapter.py."""

    oauth2_adapter_class = OpenID

    def end_address(self) -> str:
        """Return where the person's session at the provider ends, leading back to our sign-in page; "" without one."""
        end = self.get_oauth2_adapter(self.request).openid_config.get("end_session_endpoint", "")
        if not isinstance(end, str) or urlsplit(end).scheme not in ("https", "http"):
            return ""
        back = {
            "client_id": self.app.client_id,
            "post_logout_redirect_uri": f"{settings.HANDRAIL_DESK_URL}/accounts/login/",
        }
        return add_query_params(end, back)

    def extract_uid(self, data: dict) -> str:
        """Return a digest of issuer and subject: two issuers may use one subject for different people."""
        return hashlib.sha256(json.dumps([data["iss"], data["sub"]]).encode()).hexdigest()

    def extract_extra_data(self, data: dict) -> dict:
        return {"iss": data["iss"], "sub": data["sub"]}

    def extract_common_fields(self, data: dict) -> dict:
        return {"claims": data}

    def extract_email_addresses(self, data: dict) -> list:
        return []

    def begin(self, request, process: str, **state):
        """Redirect to the provider with a fresh state, nonce and PKCE challenge; `state` comes back to the callback."""
        nonce = secrets.token_urlsafe(32)
        return self.redirect(request, process, nonce=nonce, auth_params={"nonce": nonce}, **state)

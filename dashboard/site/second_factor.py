"""Passkeys, an authenticator app and recovery codes: allauth's pages in our look, at our address, with events."""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.base import views as base_views
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as recovery_views
from allauth.mfa.totp import views as totp_views
from allauth.mfa.webauthn import forms as webauthn_forms
from allauth.mfa.webauthn import views as webauthn_views
from django import forms
from django.conf import settings
from django.dispatch import receiver
from django.urls import path
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext, gettext_lazy
from django.views.generic import RedirectView
from fido2 import cbor
from fido2.utils import websafe_encode
from fido2.webauthn import AuthenticationResponse, RegistrationResponse

from dashboard.keys.keyring import Key, Ring
from dashboard.models import Actor
from dashboard.people import passkeys
from dashboard.people.sign_ins import record_for_person
from handrail_verify.passkeys import key_hash

MAX_NAME = 60
MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)  # what parsing raises
# Those of allauth's pages that manage what a person has are one section of the page Me.
of_me = RedirectView.as_view(pattern_name="me")

urlpatterns = [
    path("", of_me, name="mfa_index"),
    path("authenticate/", base_views.authenticate, name="mfa_authenticate"),
    path("reauthenticate/", base_views.reauthenticate, name="mfa_reauthenticate"),
    path("totp/activate/", totp_views.activate_totp, name="mfa_activate_totp"),
    path("totp/deactivate/", totp_views.deactivate_totp, name="mfa_deactivate_totp"),
    path("recovery-codes/", recovery_views.view_recovery_codes, name="mfa_view_recovery_codes"),
    path("recovery-codes/generate/", recovery_views.generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("recovery-codes/download/", recovery_views.download_recovery_codes, name="mfa_download_recovery_codes"),
    path("passkeys/", of_me, name="mfa_list_webauthn"),
    path("passkeys/add/", webauthn_views.add_webauthn, name="mfa_add_webauthn"),
    path("passkeys/login/", webauthn_views.login_webauthn, name="mfa_login_webauthn"),
    path("passkeys/reauthenticate/", webauthn_views.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("passkeys/<int:pk>/edit/", webauthn_views.edit_webauthn, name="mfa_edit_webauthn"),
    path("passkeys/<int:pk>/remove/", webauthn_views.remove_webauthn, name="mfa_remove_webauthn"),
]


class SecondFactors(DefaultMFAAdapter):
    """allauth's adapter: passkeys belong to our address, whichever the request used; secrets are stored encrypted."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("That code or passkey was not accepted. Try again."),
        "cannot_generate_recovery_codes": gettext_lazy("Recovery codes need a passkey or an authenticator app first."),
    }

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": passkeys.relying_party(), "name": "Handrail"}

    def get_totp_issuer(self) -> str:
        return f"Handrail at {passkeys.relying_party()}"

    def get_totp_label(self, user) -> str:
        return user.get_username()

    def generate_authenticator_name(self, user, type) -> str:
        count = Authenticator.objects.filter(user=user, type=type).count()
        return f"Passkey {count + 1}" if count else gettext("Passkey")

    def encrypt(self, text: str) -> str:
        return urlsafe_b64encode(_ring().encrypt(text.encode(), _PLACE)).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Raise Unreadable if secret_key, which the key is derived from, is not the one that it was encrypted with."""
        return _ring().decrypt(urlsafe_b64decode(encrypted_text), _PLACE).decode()


_PLACE = "second factor"  # what the ciphertexts are bound to


def _ring() -> Ring:
    key = salted_hmac("dashboard.site.second_factor", _PLACE, algorithm="sha256").digest()
    return Ring((Key(b"accounts", key),))


def of_person(user) -> dict:
    """Return what the page Me says about a person's passkeys, authenticator app and recovery codes."""
    own = list(Authenticator.objects.filter(user=user).order_by("created_at", "pk"))
    by_type = {each.type: each for each in own}
    codes = by_type.get(Authenticator.Type.RECOVERY_CODES)
    found = [each for each in own if each.type == Authenticator.Type.WEBAUTHN]
    return {
        "passkeys": [(each, each.data.get("rp_id") == passkeys.relying_party()) for each in found],
        "has_app": Authenticator.Type.TOTP in by_type,
        "has_codes": codes is not None,
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else 0,
        "no_passkeys": passkeys.why_not_at(settings.HANDRAIL_DESK_URL),
    }


# Forms, as MFA_FORMS in settings names them --------------------------------------------------------------------------


class OfOurPages:
    """Refuses answers that were not given on a page of ours: allauth accepts those of each port and subdomain."""

    answer = AuthenticationResponse

    def clean_credential(self):
        try:
            origin = self.answer.from_dict(self.cleaned_data["credential"]).response.client_data.origin
        except MALFORMED:
            origin = None
        if origin != passkeys.origin():
            raise get_adapter().validation_error("incorrect_code")
        checked = getattr(super(), "clean_credential", None)  # allauth's form that adds one checks it in `clean`
        return checked() if checked else self.cleaned_data["credential"]


class AddPasskey(OfOurPages, webauthn_forms.AddWebAuthnForm):
    """Takes passkeys only, which verify their person and can sign in without a user name."""

    answer = RegistrationResponse
    passwordless = None  # no choice: user verification is required by settings, and static/js/passkeys.js asks for it
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=MAX_NAME,
        help_text=gettext_lazy("Such as the device's name."),
    )

    def clean_name(self) -> str:
        return super().clean_name().replace("\0", "\ufffd")


class RenamePasskey(webauthn_forms.EditWebAuthnForm):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=MAX_NAME)

    def save(self) -> Authenticator:
        was = self.instance.data["name"]
        renamed = super().save()
        if was != renamed.data["name"]:
            record_for_person(renamed.user, "person.passkey_renamed", was=was, name=renamed.data["name"])
        return renamed


class SignInByPasskey(OfOurPages, webauthn_forms.LoginWebAuthnForm):
    pass


class AuthenticateByPasskey(OfOurPages, webauthn_forms.AuthenticateWebAuthnForm):
    pass


class ReauthenticateByPasskey(OfOurPages, webauthn_forms.ReauthenticateWebAuthnForm):
    pass


class AuthenticateByCode(AuthenticateForm):
    code = forms.CharField(
        label=gettext_lazy("Code of the app, or a recovery code"),
        widget=forms.TextInput({"autocomplete": "one-time-code"}),
    )


class ReauthenticateByCode(ReauthenticateForm):
    code = AuthenticateByCode.base_fields["code"]


# Events --------------------------------------------------------------------------------------------------------------

NAMES = {Authenticator.Type.TOTP: "codes_app", Authenticator.Type.RECOVERY_CODES: "recovery_codes"}


def public_key_of(passkey: Authenticator) -> bytes:
    return cbor.encode(dict(passkey.wrap().authenticator_data.credential_data.public_key))


@receiver(signals.authenticator_added, dispatch_uid="dashboard")
def note_added(request, user, authenticator, **kwargs):
    """Store for which address a passkey is, and record what was added."""
    if authenticator.type != Authenticator.Type.WEBAUTHN:
        record_for_person(user, f"person.{NAMES[authenticator.type]}_added")
        if authenticator.type == Authenticator.Type.TOTP:
            _note_confirmed(request, user, authenticator)
        return
    authenticator.data["rp_id"] = passkeys.relying_party()
    authenticator.save(update_fields=["data"])
    record_for_person(user, "person.passkey_added", **about(authenticator))
    _note_confirmed(request, user, authenticator)


def about(passkey: Authenticator) -> dict:
    """Return what the log says of a passkey."""
    credential = passkey.wrap().authenticator_data.credential_data.credential_id
    about = {"name": passkey.data["name"], "for": passkey.data.get("rp_id", "")}
    return about | {"credential": websafe_encode(credential), "key_sha256": key_hash(public_key_of(passkey))}


def _note_confirmed(request, user, added: Authenticator):
    """Count the addition as a confirmation, so that the page with the recovery codes opens without asking again.

    Whoever had something to confirm with did so just before (allauth asks before the page to add one). The new one was
    used to add it: a passkey has signed, and of an app a code was typed.
    """
    record_authentication(request, user, "mfa", id=added.pk, type=added.type, reauthenticated=True)


@receiver(signals.authenticator_removed, dispatch_uid="dashboard")
def note_removed(user, authenticator, **kwargs):
    if authenticator.type == Authenticator.Type.WEBAUTHN:
        record_for_person(user, "person.passkey_removed", **about(authenticator))
    else:
        record_for_person(user, f"person.{NAMES[authenticator.type]}_removed")


@receiver(signals.authenticator_reset, dispatch_uid="dashboard")
def note_reset(user, **kwargs):
    record_for_person(user, "person.recovery_codes_added")


@receiver(signals.authenticator_used, dispatch_uid="dashboard")
def note_used(user, authenticator, **kwargs):
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        record_for_person(user, "person.recovery_code_used")


@receiver(signals.authentication_failed, dispatch_uid="dashboard")
def note_failed(user, **kwargs):
    record_for_person(user, "person.sign_in_failed", actor=Actor.system("sign-in"), how="code")


def how_signed_in(request, user) -> str:
    """Return how this session's sign-in was done: "password", "passkey", "single sign-on", or "password and code"."""
    records = get_authentication_records(request, user)
    second = [record["type"] for record in records if record["method"] == "mfa"]
    if any(record.get("passwordless") for record in records):
        return "passkey"
    words = {Authenticator.Type.WEBAUTHN: "passkey", Authenticator.Type.RECOVERY_CODES: "recovery code"}
    first = "single sign-on" if any(record["method"] == "socialaccount" for record in records) else "password"
    return f"{first} and {words.get(second[-1], 'code')}" if second else first

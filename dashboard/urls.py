"""The routes of pages, API and sockets."""

from channels.security.websocket import WebsocketDenier
from django.contrib import admin
from django.urls import include, path, re_path

from dashboard.api import api
from dashboard.ops import health
from dashboard.site import accounts, consumers, desk, installable, people, phone, search
from workspaces.pages.terminal_socket import TerminalSocket

admin.autodiscover()  # here, so that commands and daemons do not load it

urlpatterns = [
    path("", desk.desk, name="desk"),
    path("", include("approvals.urls")),
    path("", include("workspaces.urls")),
    path("log/", desk.log, name="log"),
    path("log/proof/", desk.log_proof, name="log-proof"),
    path("log/export/", desk.log_export, name="log-export"),
    path("search/", search.search, name="search"),
    path("live", desk.live, name="live"),
    path("status/", health.status, name="status"),
    path("team/", people.team, name="team"),
    path("team/invite/", people.invite_people, name="people-invite"),
    path("team/passkeys/", people.require_passkeys, name="team-passkeys"),
    path("team/<uuid:pk>/role/", people.change_role, name="person-role"),
    path("team/<uuid:pk>/remove/", people.remove_person, name="person-remove"),
    path("team/<uuid:pk>/link/", people.new_link, name="person-link"),
    path("connect/phone/", phone.phone, name="connect-phone"),
    path("agents/", people.agents, name="agents"),
    path("agents/add/", people.add_agent, name="agent-add"),
    path("agents/<uuid:pk>/pause/", people.pause_agent, name="agent-pause"),
    path("agents/<uuid:pk>/unpause/", people.unpause_agent, name="agent-unpause"),
    path("agents/<uuid:pk>/token/", people.make_token, name="agent-token"),
    path("tokens/<uuid:pk>/revoke/", people.revoke_token, name="token-revoke"),
    path("me/", desk.me, name="me"),
    path("me/theme/", desk.theme, name="theme"),
    path("language/", desk.language, name="language"),
    path("texts.js", installable.texts, name="texts"),
    path("me/keys/", desk.keys, name="keys"),
    path("more/", desk.more, name="more"),
    path("sign-in/<str:secret>/", accounts.sign_in, name="sign-in"),
    path("accounts/", include(accounts.urlpatterns)),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("hooks/", include("approvals.hooks.urls")),
    path("manifest.webmanifest", installable.manifest, name="manifest"),
    path("service-worker.js", installable.service_worker, name="service-worker"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]

websocket_urlpatterns = [
    path("ws/live", consumers.Live.as_asgi()),
    path("ws/terminals/<str:id>", TerminalSocket.as_asgi()),
    re_path("", WebsocketDenier.as_asgi()),  # URLRouter raises for an unknown address
]

handler404 = "dashboard.pages.no_such_page"

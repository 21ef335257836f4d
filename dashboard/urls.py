"""The routes of pages, API and sockets."""

from importlib import import_module

from channels.security.websocket import WebsocketDenier
from django.contrib import admin
from django.urls import include, path, re_path

from approvals.api import code_host_webhooks
from dashboard.admin import register_the_rest
from dashboard.api import api
from dashboard.door.walk import refuse_undeclared
from dashboard.ops import health, host_pages
from dashboard.site import (
    accounts,
    consumers,
    desk,
    installable,
    log,
    log_targets,
    people,
    phone,
    purge_person,
    search,
    sessions,
    set_up,
    teams,
    tokens,
)
from dashboard.site.measures import pages as measures
from dashboard.site.oversight import pages as oversight
from workspaces.pages.terminal_socket import TerminalSocket

admin.autodiscover()  # here, so that commands and daemons do not load it
import_module("dashboard.admin.sso")
register_the_rest(["dashboard", "workspaces", "approvals"])

urlpatterns = [
    path("", desk.desk, name="desk"),
    path("", include("approvals.pages.urls")),
    path("", include("workspaces.pages.urls")),
    path("log/", log.log, name="log"),
    path("log/proof/", log.log_proof, name="log-proof"),
    path("log/export/", log.log_export, name="log-export"),
    path("log/checkpoint/", log.checkpoint, name="log-checkpoint"),
    path("log/targets/", log_targets.listing, name="log-targets"),
    path("log/targets/add/", log_targets.add, name="log-target-add"),
    path("log/targets/<uuid:pk>/switch/", log_targets.switch, name="log-target-switch"),
    path("log/targets/<uuid:pk>/remove/", log_targets.remove, name="log-target-remove"),
    path("search/", search.search, name="search"),
    path("live", desk.live, name="live"),
    path("status/", health.status, name="status"),
    path("status/hosts/<str:host>/<slug:word>/", host_pages.say, name="status-host"),
    path("team/", people.team, name="team"),
    path("teams/", teams.listing, name="teams"),
    path("teams/create/", teams.create, name="team-create"),
    path("teams/rename/", teams.rename, name="team-rename"),
    path("teams/archive/", teams.archive, name="team-archive"),
    path("teams/unarchive/", teams.unarchive, name="team-unarchive"),
    path("teams/show/", teams.show, name="team-show"),
    path("team/invite/", people.invite_people, name="people-invite"),
    path("team/owner-approval/", people.set_owner_approval, name="team-owner-approval"),
    path("team/passkeys/", people.require_passkeys, name="team-passkeys"),
    path("team/tickets/", people.set_ticket_url, name="team-tickets"),
    path("team/second-factor/", people.require_second_factor, name="team-second-factor"),
    path("team/<uuid:pk>/role/", people.change_role, name="person-role"),
    path("team/<uuid:pk>/remove/", people.remove_person, name="person-remove"),
    path("team/<uuid:pk>/purge/", purge_person.purge_person, name="person-purge"),
    path("team/<uuid:pk>/link/", people.new_link, name="person-link"),
    path("team/<uuid:pk>/sessions/", sessions.end_sessions_of, name="person-sessions"),
    path("connect/phone/", phone.phone, name="connect-phone"),
    path("agents/", people.agents, name="agents"),
    path("agents/add/", people.add_agent, name="agent-add"),
    path("agents/<uuid:pk>/pause/", people.pause_agent, name="agent-pause"),
    path("agents/<uuid:pk>/unpause/", people.unpause_agent, name="agent-unpause"),
    path("agents/<uuid:pk>/token/", people.make_token, name="agent-token"),
    path("tokens/", tokens.listing, name="tokens"),
    path("tokens/revoke-unused/", tokens.revoke_unused, name="tokens-revoke-unused"),
    path("tokens/<uuid:pk>/end/", tokens.revoke, name="tokens-revoke"),
    path("tokens/<uuid:pk>/revoke/", people.revoke_token, name="token-revoke"),
    path("me/", desk.me, name="me"),
    path("me/second-factor/", sessions.needed, name="second-factor"),
    path("me/sessions/end/", sessions.end_sessions, name="sessions-end"),
    path("me/sessions/<int:pk>/end/", sessions.end_session, name="session-end"),
    path("me/theme/", desk.theme, name="theme"),
    path("language/", desk.language, name="language"),
    path("texts.js", installable.texts, name="texts"),
    path("me/keys/", desk.keys, name="keys"),
    path("measures/", measures.measures, name="measures"),
    path("oversight/", oversight.page, name="oversight"),
    path("oversight/<str:kind>/", oversight.file, name="oversight-file"),
    path("measures/csv/", measures.measures_csv, name="measures-csv"),
    path("measures/limits/", measures.set_cap, name="cap-set"),
    path("measures/limits/lift/", measures.lift_cap, name="cap-lift"),
    path("measures/prices/", measures.set_prices, name="prices-set"),
    path("metrics", measures.metrics, name="metrics"),
    path("set-up/", set_up.set_up, name="set-up"),
    path("more/", desk.more, name="more"),
    path("sign-in/<str:secret>/", accounts.sign_in, name="sign-in"),
    path("accounts/", include(accounts.urlpatterns)),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("hooks/code-host/<str:kind>", code_host_webhooks.arrive, name="code-host-hook"),
    path("hooks/", include("approvals.hooks.urls")),
    path("aap/", include("approvals.protocols.aap.urls")),
    path("e2b/", include("approvals.protocols.e2b.urls")),
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

refuse_undeclared(api, urlpatterns, websocket_urlpatterns)

handler404 = "dashboard.web.pages.no_such_page"
handler500 = "dashboard.database.outages.broken"

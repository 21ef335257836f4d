"""The ASGI application: HTTP and WebSocket."""

import gc
import os

gc.disable()  # nothing loaded here is garbage, and collecting takes a tenth of the start
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()  # loads the apps; the imports below need the models

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import CookieMiddleware
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries

from approvals.agent_runs.model_relay.application import with_model_relay
from approvals.hooks.fail_closed import fail_closed
from approvals.hooks.intake_limit import in_turn
from approvals.protocols.e2b.host_names import with_host_names
from dashboard.database.threads import on_request_threads
from dashboard.ops.health import answers_at_once
from dashboard.urls import websocket_urlpatterns
from dashboard.web.socket_auth import drop_late, own_origin_or_token
from workspaces.previews.application import with_previews

# The threads look after their connections themselves; these two would take each request to a thread first.
for receiver in (reset_queries, close_old_connections):
    request_started.disconnect(receiver)

application = with_host_names(
    with_previews(
        ProtocolTypeRouter(
            {
                "http": answers_at_once(with_model_relay(fail_closed(in_turn(on_request_threads(http))))),
                "websocket": on_request_threads(
                    drop_late(own_origin_or_token(CookieMiddleware(URLRouter(websocket_urlpatterns))))
                ),
            }
        )
    )
)

gc.freeze()  # later collections skip what was loaded here
gc.set_threshold(20_000)  # from Python's 700 on, one page in ten would wait some 80 ms for a full collection
gc.enable()

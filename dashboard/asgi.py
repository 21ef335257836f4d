"""HTTP and WebSocket side by side."""

import gc
import os

gc.disable()  # nothing of what is loaded here is garbage; looking for it takes a tenth of the start
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()  # loads the apps; what follows imports models

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import CookieMiddleware

from approvals.hooks.edge import fail_closed
from dashboard.socket_callers import own_origin_or_token
from dashboard.urls import websocket_urlpatterns

application = ProtocolTypeRouter(
    {
        "http": fail_closed(http),
        "websocket": own_origin_or_token(CookieMiddleware(URLRouter(websocket_urlpatterns))),
    }
)

gc.freeze()  # and it stays: later searches need not look through it
gc.enable()

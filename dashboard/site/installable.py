"""Public files without a state: the manifest, the service worker, and the texts of the scripts in a language."""

from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.http import Http404, HttpResponse, JsonResponse
from django.templatetags.static import static
from django.views.decorators.http import require_safe
from django.views.i18n import JavaScriptCatalog

COLOR, PAPER = "#0F5C58", "#F6F5F1"
ICONS = [("icon-192.png", "192x192", "any"), ("icon-512.png", "512x512", "any")]
ICONS += [("maskable-512.png", "512x512", "maskable")]


@require_safe
def manifest(request):
    icons = [
        {"src": static(f"icons/{name}"), "sizes": sizes, "type": "image/png", "purpose": purpose}
        for name, sizes, purpose in ICONS
    ]
    icons.append({"src": static("favicon.svg"), "sizes": "any", "type": "image/svg+xml"})
    about = {"id": "/", "name": "Handrail", "short_name": "Handrail", "start_url": "/", "scope": "/"}
    about |= {"description": "The review desk for coding agents", "display": "standalone", "lang": "en"}
    about |= {"theme_color": COLOR, "background_color": PAPER, "icons": icons}
    return JsonResponse(about, content_type="application/manifest+json", headers={"Cache-Control": "max-age=3600"})


@require_safe
def service_worker(request):
    """Serve static/js/service-worker.js at the root, whose scope is the whole site; browsers ask for it each time."""
    found = finders.find("js/service-worker.js")
    if found is None:
        raise Http404("service worker")
    response = HttpResponse(Path(found).read_bytes(), content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    response["Content-Security-Policy"] = "default-src 'none'; connect-src 'self'; script-src 'self'; img-src 'self'"
    return response


class Texts(JavaScriptCatalog):
    """Serve the translations of the scripts' texts (the domain djangojs) in the language of the request."""

    packages = ("dashboard",)

    def get_paths(self, packages):
        return [*map(str, settings.LOCALE_PATHS), *super().get_paths(packages)]

    def render_to_response(self, context, **kwargs):
        response = super().render_to_response(context, **kwargs)
        response["Cache-Control"] = "max-age=31536000, immutable"  # its address changes with the texts
        return response


texts = require_safe(Texts.as_view())

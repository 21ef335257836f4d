"""What makes the site installable: the manifest and the service worker, both public and without a state."""

from pathlib import Path

from django.contrib.staticfiles import finders
from django.http import Http404, HttpResponse, JsonResponse
from django.templatetags.static import static
from django.views.decorators.http import require_safe

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

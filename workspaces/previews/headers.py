"""Which headers pass between a browser and the program that is previewed, and what is changed in them."""

from django.conf import settings

# Hop-by-hop header fields (RFC 9110, section 7.6.1), and those that each connection sets itself.
HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
OF_THE_HOST = {
    b"host",
    b"origin",
    b"cookie",
    b"referer",
    b"forwarded",
    b"front-end-https",
    b"x-original-host",
    b"x-real-ip",
    b"x-url-scheme",
}
OF_A_PROXY = b"x-forwarded-"  # frameworks read -host, -proto, -port, -scheme, -ssl, -server and -prefix
OF_A_SOCKET = {
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-extensions",
    b"sec-websocket-protocol",
    b"sec-websocket-accept",
}
# A program's word about the whole host name, about the browser's copy of other pages, or about who may frame it.
NOT_FROM_A_PROGRAM = {b"strict-transport-security", b"clear-site-data", b"alt-svc", b"public-key-pins"}
NOT_FROM_A_PROGRAM |= {b"x-frame-options", b"x-robots-tag", b"cross-origin-opener-policy"}
# Of each answer of a preview's host: no page of another host name frames it. A browser applies every policy it is sent,
# so that a program's own one can only add to this.
OURS: "Headers" = [
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"x-robots-tag", b"noindex"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_secure = settings.HANDRAIL_DESK_URL.startswith("https:")
COOKIE = "__Host-handrail-preview" if _secure else f"handrail-preview-{settings.HANDRAIL_PORT}"

Headers = list[tuple[bytes, bytes]]


def first(headers: Headers, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def secret_of(headers: Headers) -> str:
    """Return the preview's own cookie, "" without one."""
    return next((value for name, value in _cookies(headers) if name == COOKIE), "")


def cookie_of(secret: str, seconds: int) -> bytes:
    """Return the Set-Cookie value that keeps a preview: of this host alone, and out of reach of its scripts."""
    parts = [f"{COOKIE}={secret}", "Path=/", "HttpOnly", "SameSite=Lax", f"Max-Age={seconds}"]
    return "; ".join([*parts, *(["Secure"] if _secure else [])]).encode()


def _cookies(headers: Headers) -> list[tuple[str, str]]:
    parts = [part for key, value in headers if key == b"cookie" for part in value.decode("latin-1").split(";")]
    return [(name.strip(), value.strip()) for name, _, value in (part.partition("=") for part in parts)]


def to_program(headers: Headers, port: int, own_origin: str) -> list[tuple[str, str]]:
    """Return a browser's headers as the program gets them: as from localhost, without the preview's own cookie.

    Host, Origin and Referer name one host, and no header names the preview's: frameworks compare Origin with Host
    (SvelteKit, Django) or with X-Forwarded-Host (Next.js, Rails), and refuse a form where they differ.
    """
    dropped = HOP_BY_HOP | OF_THE_HOST | OF_A_SOCKET | _named_by_connection(headers)
    passed = [(key, value) for key, value in headers if key not in dropped and not key.startswith(OF_A_PROXY)]
    kept = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in passed]
    here = f"localhost:{port}"
    kept.append(("Host", here))
    if cookies := "; ".join(f"{name}={value}" for name, value in _cookies(headers) if name and name != COOKIE):
        kept.append(("Cookie", cookies))
    if origin := first(headers, b"origin"):
        kept.append(("Origin", f"http://{here}" if origin == own_origin else origin))
    if referer := first(headers, b"referer"):
        is_own = referer == own_origin or referer.startswith(f"{own_origin}/")
        kept.append(("Referer", f"http://{here}{referer[len(own_origin) :]}" if is_own else referer))
    return kept


def to_browser(headers: Headers, port: int) -> Headers:
    """Return a program's headers as the browser gets them: no cookie for other hosts, and no word for them."""
    dropped = HOP_BY_HOP | NOT_FROM_A_PROGRAM | _named_by_connection(headers)
    kept = []
    for key, value in ((key.lower(), value) for key, value in headers):
        if key in dropped or (key == b"set-cookie" and not _is_of_this_host(value)):
            continue
        kept.append((key, _relative(value, port) if key == b"location" else value))
    return [*kept, *OURS]


def _named_by_connection(headers: Headers) -> set[bytes]:
    values = [value for key, value in headers if key.lower() == b"connection"]
    return {name.strip().lower() for value in values for name in value.split(b",")}


def _is_of_this_host(value: bytes) -> bool:
    """Return False for a cookie with a domain or without a name, and for one that would replace the preview's own.

    A browser sends one without a name back as its value alone, which reads as the name and value of another cookie.
    """
    attributes = {part.partition(b"=")[0].strip().lower() for part in value.split(b";")[1:]}
    name, has_name, _ = value.partition(b";")[0].partition(b"=")
    own = name.strip().decode("latin-1")
    return b"domain" not in attributes and bool(has_name) and own not in ("", COOKIE)


def _relative(location: bytes, port: int) -> bytes:
    """Return a redirect to the program's own address as one to this host."""
    for name in (b"localhost", b"127.0.0.1", b"[::1]"):
        own = b"http://%s:%d" % (name, port)
        if location == own or location.startswith((own + b"/", own + b"?")):
            return location[len(own) :] or b"/"
    return location

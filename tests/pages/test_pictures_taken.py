"""The picture that a browser of the host takes of a preview, which is content that nobody has checked."""

import http.server
import shutil
import threading

import pytest

from workspaces.services.screenshots import keeping, taking


class Page(http.server.BaseHTTPRequestHandler):
    """A page that tries to reach `server.other` in five ways."""

    def do_GET(self):
        self.server.seen.append(self.path)
        other = self.server.other
        body = f"""<body style="background:#8cf"><img src="http://127.0.0.1:{other}/">
            <iframe src="http://3000-own.preview.localhost:{other}/"></iframe><iframe src="http://localhost:{other}/">
            </iframe><script>fetch("http://127.0.0.1:{other}/", {{mode: "no-cors"}}).catch(() => 0);
            new WebSocket("ws://127.0.0.1:{other}/")</script>"""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def serve():
    running = []

    def start(other=0):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        server.seen, server.other = [], other
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_the_browser_of_the_host_reaches_the_preview_and_nothing_else(settings, serve, require):
    settings.HANDRAIL_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
    if settings.HANDRAIL_CHROMIUM is None:
        require("browser", "there is no Chromium on this machine")
    other = serve()
    shown = serve(other.server_port)
    data = taking._picture(f"http://3000-own.preview.localhost:{shown.server_port}/page")
    assert keeping.size_of(data) is not None
    assert "/page" in shown.seen
    assert other.seen == []

"""A stand-in of OPA: its data API on loopback, which answers what a test sets."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Opa:
    """Keeps each input; `result` is what the document is, None where it is undefined. `seconds`: before each byte."""

    def __init__(self):
        self.inputs, self.result, self.status, self.seconds, self.body = [], {"decision": "allow"}, 200, 0.0, None
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                kept.inputs.append(asked["input"])
                body = kept.body or json.dumps({} if kept.result is None else {"result": kept.result}).encode()
                self.send_response(kept.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for byte in body:
                    time.sleep(kept.seconds)
                    try:
                        self.wfile.write(bytes([byte]))
                    except OSError:
                        return

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.setting = f"opa:http://127.0.0.1:{self._server.server_port}/v1/data/handrail/decision"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

"""A person in a browser without JavaScript: links, forms and cookies."""

import re
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request

FORM_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


class Visitor:
    """Signed in by a one-time link. `text` and `path` are those of the last page; `pages` are all that were shown."""

    def __init__(self, product, link: str):
        self.product = product
        self.text, self.path, self.pages = "", "", []
        self._opener = product.browser()
        self._form_token = ""
        self.post(link.removeprefix(product.url))
        self._form_token = ""  # it is another one after the sign-in

    @classmethod
    def named(cls, product, name: str, role: str = "reviewer"):
        """Somebody with this role, who is made first when missing."""
        return cls(product, product.sign_in_url(name, role))

    def get(self, path: str, **headers) -> str:
        return self._open(Request(self.product.url + path, headers=headers))

    def post(self, path: str, fields=(), *, at: str = "") -> str:
        """Send a form, which is on the page `at`; the page that follows."""
        if at or not self._form_token:
            self.get(at or path)
        pairs = fields.items() if isinstance(fields, dict) else fields
        body = urlencode([("csrfmiddlewaretoken", self._form_token), *pairs], doseq=True).encode()
        address = self.product.url + path
        return self._open(Request(address, body, {"Referer": address}))

    def _open(self, request: Request) -> str:
        with self._opener.open(request, timeout=120) as answer:
            return self._shown(answer)

    def _shown(self, answer) -> str:
        self.text, self.path = answer.read().decode(), urlsplit(answer.url).path
        self.pages.append(self.text)
        if found := FORM_TOKEN.search(self.text):
            self._form_token = found[1]
        return self.text

    @property
    def cookies(self) -> CookieJar:
        [jar] = [one.cookiejar for one in self._opener.handlers if isinstance(one, HTTPCookieProcessor)]
        return jar

"""GitHub, and GitHub Enterprise Server."""

from urllib.parse import urlencode

from workspaces.code_hosts.base import (
    CodeHost,
    Opened,
    PullRequest,
    Refused,
    is_of_a_fork,
    number_of,
    said,
    text_of,
    web_address,
)


class GitHub(CodeHost):
    name = "GitHub"

    @property
    def headers(self):
        return {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    @property
    def api(self) -> str:
        is_public = self.repository.host == "github.com"
        return "https://api.github.com" if is_public else f"{self.repository.base}/api/v3"

    @property
    def _pulls(self) -> str:
        return f"{self.api}/repos/{self.repository.path}/pulls"

    async def is_it(self):
        status, told = await self.client.call("GET", f"{self.api}/meta", headers=self.headers)
        return status == 200 and isinstance(told, dict) and "verifiable_password_authentication" in told

    async def default_branch(self):
        _, told = await self.call("GET", f"{self.api}/repos/{self.repository.path}")
        return text_of(told, "default_branch")

    async def create(self, wanted: PullRequest):
        body = {"title": wanted.title, "head": wanted.branch, "base": wanted.base, "body": wanted.body}
        status, told = await self.call("POST", self._pulls, body, also=(422,))
        if status < 300:
            return Opened(number_of(told, "number"), web_address(text_of(told, "html_url")), wanted.base)
        if "already exists" in said(told):
            return None
        raise Refused(f"GitHub at {self.repository.host} said 422: {said(told)}.")

    async def existing(self, wanted: PullRequest):
        query = urlencode({"state": "open", "head": f"{self.repository.owner}:{wanted.branch}"})
        _, found = await self.call("GET", f"{self._pulls}?{query}")
        for told in found if isinstance(found, list) else ():
            if text_of(told, "head", "ref") != wanted.branch or is_of_a_fork(told):
                continue
            url = web_address(text_of(told, "html_url"))
            return Opened(number_of(told, "number"), url, text_of(told, "base", "ref"), is_new=False)
        return None

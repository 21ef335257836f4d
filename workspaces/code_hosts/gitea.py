"""Gitea and Forgejo, which have the same API."""

import re
from urllib.parse import quote

from workspaces.code_hosts.answers import number_of, text_of, web_address
from workspaces.code_hosts.base import Opened, PullRequest
from workspaces.code_hosts.github_style import DISMISSED, GitHubStyle
from workspaces.code_hosts.github_threads import GiteaThreads
from workspaces.code_hosts.host import PER_PAGE


class Gitea(GitHubStyle, GiteaThreads):
    kind, name = "gitea", "Gitea"
    draft = "WIP: "
    # pattern: matched at the start of a title alone
    drafts = re.compile(r"\s*(wip:|\[wip\])", re.IGNORECASE)

    @property
    def headers(self):
        return {"Authorization": f"token {self.token}"}

    @property
    def project(self):
        return f"{self.repository.base}/api/v1/repos/{quote(self.repository.path)}"

    def branch_address(self, branch):
        return f"{self.project}/branches/{quote(branch)}"

    async def serves_this_api(self):
        address, is_asked = f"{self.repository.base}/api/v1/version", False
        for headers in (self.headers, {}):  # without a token, a host that refuses this one says at least what it is
            status, data = await self.client.call("GET", address, headers=headers)
            if status == 200 and isinstance(data, dict) and "version" in data:
                return True
            is_asked |= status in (401, 403)
        return None if is_asked else False

    async def create(self, wanted: PullRequest):
        body = {"title": wanted.title, "head": wanted.branch, "base": wanted.base, "body": wanted.body}
        status, data = await self.call("POST", f"{self.project}/pulls", body, also=(409,))
        if status == 409:
            return None
        return Opened(
            number_of(data, "number"), web_address(text_of(data, "html_url")), wanted.base, title=wanted.title
        )

    def listing(self, wanted):
        return f"{self.project}/pulls", {"state": "open", "limit": PER_PAGE}

    async def label_id(self, name):
        async for data in self._listed(f"{self.project}/labels", {"limit": PER_PAGE}):
            if isinstance(data, dict) and data.get("name") == name:
                return number_of(data, "id")
        return ""

    async def dismiss(self, url):
        await self.call("POST", url, {"message": DISMISSED})


class Forgejo(Gitea):
    kind, name = "forgejo", "Forgejo"

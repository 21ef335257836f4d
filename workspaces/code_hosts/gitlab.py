"""GitLab, whose pull requests are merge requests."""

from urllib.parse import quote, urlencode

from workspaces.code_hosts.base import CodeHost, Opened, PullRequest, number_of, text_of, web_address


class GitLab(CodeHost):
    name = "GitLab"

    @property
    def headers(self):
        return {"PRIVATE-TOKEN": self.token}

    @property
    def _project(self) -> str:
        return f"{self.repository.base}/api/v4/projects/{quote(self.repository.path, safe='')}"

    async def is_it(self):
        status, told = await self.client.call("GET", f"{self.repository.base}/api/v4/version", headers=self.headers)
        return status in (200, 401) and isinstance(told, dict) and bool({"version", "message"} & set(told))

    async def default_branch(self):
        _, told = await self.call("GET", self._project)
        return text_of(told, "default_branch")

    async def create(self, wanted: PullRequest):
        body = {"source_branch": wanted.branch, "target_branch": wanted.base, "title": wanted.title}
        body["description"] = wanted.body
        status, told = await self.call("POST", f"{self._project}/merge_requests", body, also=(409,))
        if status == 409:
            return None
        return Opened(number_of(told, "iid"), web_address(text_of(told, "web_url")), wanted.base)

    async def existing(self, wanted: PullRequest):
        query = urlencode({"state": "opened", "source_branch": wanted.branch})
        _, found = await self.call("GET", f"{self._project}/merge_requests?{query}")
        for told in found if isinstance(found, list) else ():
            if told.get("source_project_id") != told.get("target_project_id"):
                continue  # a fork's
            url = web_address(text_of(told, "web_url"))
            return Opened(number_of(told, "iid"), url, text_of(told, "target_branch"), is_new=False)
        return None

"""Gitea and Forgejo, which have the same API."""

from workspaces.code_hosts.base import CodeHost, Opened, PullRequest, is_of_a_fork, number_of, text_of, web_address


class Gitea(CodeHost):
    name = "Gitea"

    @property
    def headers(self):
        return {"Authorization": f"token {self.token}"}

    @property
    def _repository(self) -> str:
        return f"{self.repository.base}/api/v1/repos/{self.repository.path}"

    async def is_it(self):
        status, told = await self.client.call("GET", f"{self.repository.base}/api/v1/version", headers={})
        return status == 200 and isinstance(told, dict) and "version" in told

    async def default_branch(self):
        _, told = await self.call("GET", self._repository)
        return text_of(told, "default_branch")

    async def create(self, wanted: PullRequest):
        body = {"title": wanted.title, "head": wanted.branch, "base": wanted.base, "body": wanted.body}
        status, told = await self.call("POST", f"{self._repository}/pulls", body, also=(409,))
        if status == 409:
            return None
        return Opened(number_of(told, "number"), web_address(text_of(told, "html_url")), wanted.base)

    async def existing(self, wanted: PullRequest):
        _, found = await self.call("GET", f"{self._repository}/pulls?state=open&limit=50")
        for told in found if isinstance(found, list) else ():
            if text_of(told, "head", "ref") == wanted.branch and not is_of_a_fork(told):
                url = web_address(text_of(told, "html_url"))
                return Opened(number_of(told, "number"), url, text_of(told, "base", "ref"), is_new=False)
        return None

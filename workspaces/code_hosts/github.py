"""GitHub, and GitHub Enterprise Server."""

from urllib.parse import quote

from workspaces.code_hosts.answers import error_text, number_of, text_of, web_address
from workspaces.code_hosts.base import Opened, PullRequest
from workspaces.code_hosts.github_style import GitHubStyle
from workspaces.code_hosts.github_threads import GitHubThreads
from workspaces.code_hosts.host import PER_PAGE


class GitHub(GitHubStyle, GitHubThreads):
    kind, name = "github", "GitHub"

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
    def project(self):
        return f"{self.api}/repos/{quote(self.repository.path)}"

    def branch_address(self, branch):
        return f"{self.project}/branches/{quote(branch)}"

    async def serves_this_api(self):
        status, data = await self.client.call("GET", f"{self.api}/meta", headers=self.headers)
        if status in (401, 403):
            return None
        return status == 200 and isinstance(data, dict) and "verifiable_password_authentication" in data

    async def create(self, wanted: PullRequest):
        body = {"title": wanted.title, "head": wanted.branch, "base": wanted.base, "body": wanted.body}
        body |= {"draft": True} if wanted.draft else {}
        status, data = await self.call("POST", f"{self.project}/pulls", body, also=(422,))
        if status < 300:
            return Opened(
                number_of(data, "number"), web_address(text_of(data, "html_url")), wanted.base, title=wanted.title
            )
        if "already exists" in error_text(data):
            return None
        raise self.refused(status, data)

    async def find(self, wanted):
        # The filter takes the owner's present name only, while the repository is found by former ones too.
        _, data = await self.call("GET", self.project)
        self.owner = text_of(data, "full_name").rpartition("/")[0]
        return await super().find(wanted)

    def listing(self, wanted):
        head = f"{self.owner}:{wanted.branch}"
        return f"{self.project}/pulls", {"state": "open", "head": head, "base": wanted.base, "per_page": PER_PAGE}

"""The part of GitHub's API for pull requests that Gitea has taken over."""

from workspaces.code_hosts.answers import is_of_a_fork, number_of, one_line, text_of, web_address
from workspaces.code_hosts.base import Opened
from workspaces.code_hosts.host import CodeHost


class GitHubStyle(CodeHost):
    """A host whose listed pull requests look like GitHub's."""

    def read(self, told, wanted):
        if is_of_a_fork(told) or text_of(told, "head", "ref") != wanted.branch:
            return None
        if text_of(told, "base", "ref") != wanted.base:
            return None
        url, title = web_address(text_of(told, "html_url")), one_line(str(told.get("title") or ""))
        return Opened(number_of(told, "number"), url, wanted.base, is_new=False, title=title)

    async def update(self, number, texts):
        await self.call("PATCH", f"{self.project}/pulls/{number}", texts)

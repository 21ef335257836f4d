"""GitLab, whose pull requests are merge requests."""

import re
from urllib.parse import quote

from workspaces.code_hosts.answers import number_of, one_line, text_of, web_address
from workspaces.code_hosts.base import Opened, PullRequest
from workspaces.code_hosts.gitlab_threads import GitLabThreads
from workspaces.code_hosts.host import PER_PAGE


class GitLab(GitLabThreads):
    kind, name = "gitlab", "GitLab"
    draft = "Draft: "
    # pattern: matched at the start of a title alone
    drafts = re.compile(r"\s*(draft:|\[draft\]|\(draft\))", re.IGNORECASE)

    @property
    def headers(self):
        return {"PRIVATE-TOKEN": self.token}

    @property
    def project(self):
        return f"{self.repository.base}/api/v4/projects/{quote(self.repository.path, safe='')}"

    def branch_address(self, branch):
        return f"{self.project}/repository/branches/{quote(branch, safe='')}"

    async def serves_this_api(self):
        address = f"{self.repository.base}/api/v4/version"
        status, data = await self.client.call("GET", address, headers=self.headers)
        if not isinstance(data, dict):
            return False
        is_refusal = status in (401, 403) and (str(data.get("message", "")).startswith(str(status)) or "error" in data)
        return is_refusal or (status == 200 and "version" in data)

    async def create(self, wanted: PullRequest):
        body = {"source_branch": wanted.branch, "target_branch": wanted.base, "title": wanted.title}
        body["description"] = wanted.body
        status, data = await self.call("POST", f"{self.project}/merge_requests", body, also=(409,))
        if status == 409:
            return None
        return Opened(number_of(data, "iid"), web_address(text_of(data, "web_url")), wanted.base, title=wanted.title)

    def listing(self, wanted):
        query = {"state": "opened", "source_branch": wanted.branch, "target_branch": wanted.base}
        return f"{self.project}/merge_requests", query | {"per_page": PER_PAGE}

    def read(self, data, wanted):
        if data.get("source_project_id") != data.get("target_project_id"):
            return None  # a fork's
        if data.get("source_branch") != wanted.branch or data.get("target_branch") != wanted.base:
            return None
        url, title = web_address(text_of(data, "web_url")), one_line(str(data.get("title") or ""))
        return Opened(number_of(data, "iid"), url, wanted.base, is_new=False, title=title)

    async def update(self, number, texts):
        named = {"title": "title", "body": "description"}
        body = {named[name]: text for name, text in texts.items()}
        await self.call("PUT", f"{self.project}/merge_requests/{number}", body)

    async def is_taken_back(self, step):
        do = step["do"]
        if do in ("close_pull_request", "reopen_pull_request", "close_issue", "reopen_issue"):
            _, data = await self.call("GET", self._of(step))
            if data.get("state") == "merged":
                raise self.no_longer_fits(f"Merge request !{step['number']} was merged")
            return text_of(data, "state") == ("closed" if do.startswith("close") else "opened")
        if do in ("remove_label", "add_label"):
            _, data = await self.call("GET", self._of(step))
            return (step["label"] in (data.get("labels") or ())) == (do == "add_label")
        if do == "dismiss_review":
            _, data = await self.call("GET", f"{self._of(step)}/approvals")
            return not data.get("user_has_approved")
        return not await self.is_there(self._gone(step))

    async def take_back(self, step):
        do = step["do"]
        if do in ("close_pull_request", "reopen_pull_request", "close_issue", "reopen_issue"):
            await self.call("PUT", self._of(step), {"state_event": "close" if do.startswith("close") else "reopen"})
        elif do in ("remove_label", "add_label"):
            await self.call("PUT", self._of(step), {f"{do.removesuffix('_label')}_labels": step["label"]})
        elif do == "dismiss_review":
            await self.call("POST", f"{self._of(step)}/unapprove")
        else:
            await self.call("DELETE", self._gone(step), also=(404,))

    def _of(self, step: dict) -> str:
        """Return the address of the merge request or issue that a step is about."""
        is_pull = step["do"].endswith("pull_request") or step["do"] == "dismiss_review"
        is_pull |= step.get("on") == "pull_request"
        return f"{self.project}/{'merge_requests' if is_pull else 'issues'}/{step['number']}"

    def _gone(self, step: dict) -> str:
        """Return the address of what a step deletes."""
        if step["do"] == "delete_comment":
            return f"{self._of(step)}/notes/{step['comment']}"
        if step["do"] == "delete_label":
            return f"{self.project}/labels/{quote(step['label'], safe='')}"
        return f"{self.project}/releases/{quote(step['tag'], safe='')}"

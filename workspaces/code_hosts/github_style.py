"""The part of GitHub's API for pull requests, issues and releases that Gitea has taken over."""

from datetime import datetime
from urllib.parse import quote

from workspaces.code_hosts.answers import is_of_a_fork, number_of, one_line, text_of, web_address
from workspaces.code_hosts.base import Opened
from workspaces.code_hosts.host import CodeHost

DISMISSED = "Taken back with Handrail."  # the message of a review that is dismissed


class GitHubStyle(CodeHost):
    """A host whose listed pull requests look like GitHub's."""

    def read(self, data, wanted):
        if is_of_a_fork(data) or text_of(data, "head", "ref") != wanted.branch:
            return None
        if text_of(data, "base", "ref") != wanted.base:
            return None
        url, title = web_address(text_of(data, "html_url")), one_line(str(data.get("title") or ""))
        return Opened(number_of(data, "number"), url, wanted.base, is_new=False, title=title)

    async def update(self, number, texts):
        await self.call("PATCH", f"{self.project}/pulls/{number}", texts)

    async def is_taken_back(self, step):
        do = step["do"]
        if do in ("close_pull_request", "reopen_pull_request", "close_issue", "reopen_issue"):
            return await self._is_in_state(step)
        if do in ("remove_label", "add_label"):
            _, data = await self.call("GET", f"{self.project}/issues/{step['number']}")
            return (step["label"] in _names(data.get("labels"))) == (do == "add_label")
        if do == "dismiss_review":
            return await self._is_dismissed(step)
        if do == "delete_label":
            return not await self.label_id(step["label"])
        address = _comment(step) if do == "delete_comment" else _release(step)
        return not await self.is_there(self.project + address)

    async def take_back(self, step):
        do, issue = step["do"], f"{self.project}/issues/{step.get('number')}"
        if do in ("close_pull_request", "reopen_pull_request", "close_issue", "reopen_issue"):
            where = "pulls" if do.endswith("pull_request") else "issues"
            await self.call("PATCH", f"{self.project}/{where}/{step['number']}", {"state": _wanted(do)})
        elif do == "remove_label":
            label = await self.label_id(step["label"])
            await self.call("DELETE", f"{issue}/labels/{quote(str(label), safe='')}", also=(404,))
        elif do == "add_label":
            await self.call("POST", f"{issue}/labels", {"labels": [await self.label_id(step["label"])]})
        elif do == "dismiss_review":
            await self.dismiss(f"{self.project}/pulls/{step['number']}/reviews/{step['review']}/dismissals")
        elif do == "delete_label":
            label = await self.label_id(step["label"])
            await self.call("DELETE", f"{self.project}/labels/{quote(str(label), safe='')}", also=(404,))
        elif do == "delete_comment":
            await self.call("DELETE", self.project + _comment(step), also=(404,))
        else:
            _, data = await self.call("GET", self.project + _release(step))
            await self.call("DELETE", f"{self.project}/releases/{number_of(data, 'id')}", also=(404,))

    async def label_id(self, name: str):
        """Return what stands for a label in addresses and bodies: its name, here; "" if there is no such label."""
        return name if await self.is_there(f"{self.project}/labels/{quote(name, safe='')}") else ""

    async def dismiss(self, url: str):
        await self.call("PUT", url, {"message": DISMISSED, "event": "DISMISS"})

    async def reviews_since(self, number, at):
        found = []
        async for data in self._listed(f"{self.project}/pulls/{number}/reviews", {}):
            given = str((data.get("submitted_at") if isinstance(data, dict) else None) or "")
            if given and datetime.fromisoformat(given) >= at.replace(microsecond=0):
                found.append(number_of(data, "id"))
        return found

    async def _is_in_state(self, step: dict) -> bool:
        is_pull = step["do"].endswith("pull_request")
        where, what = ("pulls", "Pull request") if is_pull else ("issues", "Issue")
        _, data = await self.call("GET", f"{self.project}/{where}/{step['number']}")
        if is_pull and data.get("merged"):
            raise self.no_longer_fits(f"{what} #{step['number']} was merged")
        return text_of(data, "state") == _wanted(step["do"])

    async def _is_dismissed(self, step: dict) -> bool:
        _, data = await self.call("GET", f"{self.project}/pulls/{step['number']}/reviews/{step['review']}")
        return data.get("state") == "DISMISSED" or bool(data.get("dismissed"))


def _wanted(do: str) -> str:
    return "closed" if do.startswith("close") else "open"


def _comment(step: dict) -> str:
    """Return the address of a comment; one on a line of a pull request is among others."""
    return f"/{'pulls' if step.get('on') == 'line' else 'issues'}/comments/{step['comment']}"


def _release(step: dict) -> str:
    return f"/releases/tags/{quote(step['tag'], safe='')}"


def _names(labels) -> list[str]:
    return [each.get("name", "") for each in labels or () if isinstance(each, dict)]

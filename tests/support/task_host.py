"""A code host with issues, comments, reviews and checks, as the API documents of GitHub, GitLab and Gitea have them."""

import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta

from tests.support.code_host import TOKEN, CodeHost

PREFIX = {
    "github": "/api/v3/repos/team/shop",
    "gitea": "/api/v1/repos/team/shop",
    "gitlab": "/api/v4/projects/team/shop",
}
PAGE = {"github": "per_page", "gitea": "limit", "gitlab": "per_page"}
OURS = "handrail-bot"  # the account of the token
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


class TaskHost(CodeHost):
    """`people` has the ids of accounts; `issue`, `comment`, `review`, `status` and `merge` do what people do there."""

    def __init__(self, kind: str, root=None, **more):
        self.people = {OURS: 1}
        self.issues, self.labels, self.notes, self.line_notes, self.statuses = {}, [], [], [], []
        self.count = 100
        super().__init__("gitea" if kind == "forgejo" else kind, root, **more)  # those two have one API
        self.signs_as = kind
        self.most = 50

    # What people do -------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"{self.url}/team/shop"

    def person(self, login: str) -> dict:
        pk = self.people.setdefault(login, 10 + len(self.people))
        return {"id": pk, "username": login} if self.kind == "gitlab" else {"id": pk, "login": login}

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _at(self, pk: int) -> str:
        return (datetime.now(UTC) + timedelta(seconds=pk / 1000)).isoformat().replace("+00:00", "Z")

    def issue(self, title: str, body: str = "") -> int:
        number = len(self.issues) + 1 if self.kind == "gitlab" else 1000 + len(self.issues)
        self.issues[number] = {"title": title, "body": body}
        return number

    def label(self, number: int, label: str, by: str):
        self.labels.append((number, label, by))

    def comment(self, number: int, text: str, by: str, *, is_pull: bool = False) -> int:
        pk = self._next()
        row = {"id": pk, "number": number, "is_pull": is_pull, "text": text, "by": by, "at": self._at(pk)}
        self.notes.append(row)
        return pk

    def review(self, number: int, text: str, by: str, path: str, line: int) -> int:
        pk = self._next()
        row = {"id": pk, "number": number, "text": text, "by": by, "at": self._at(pk), "path": path, "line": line}
        self.line_notes.append(row)
        return pk

    def status(self, sha: str, name: str, state: str, summary: str = ""):
        """Report a check of a commit: passed, failed or running."""
        self.statuses.insert(0, {"id": self._next(), "sha": sha, "name": name, "state": state, "summary": summary})

    def merge(self, number: int, by: str):
        self._pull(number).update(state="merged", by=by)

    def close_pull(self, number: int):
        self._pull(number).update(state="closed")

    def posts(self) -> list[str]:
        """Return what the token's account wrote, without marks."""
        return [re.sub(r"\s*<!--.*?-->", "", row["text"]) for row in self.notes if row["by"] == OURS]

    def _pull(self, number: int) -> dict:
        return next(pull for pull in self.pulls if pull["number"] == number)

    # The API --------------------------------------------------------------------------------------------------------

    def answer(self, method, path, query, headers, body):
        rest = path.removeprefix(PREFIX[self.kind])
        if rest == path or not self._is_ours(headers) or method in self.fails_to:
            return super().answer(method, path, query, headers, body)
        found = getattr(self, f"_threads_of_{self.kind}")(method, rest, query, body)
        if found is None:
            return super().answer(method, path, query, headers, body)
        if isinstance(found, list):
            return self._page(found, path, query, PAGE[self.kind])
        return (201 if method == "POST" else 200), found

    def _is_ours(self, headers) -> bool:
        given = headers.get("Authorization", "").rpartition(" ")[2] or headers.get("PRIVATE-TOKEN", "")
        return given == TOKEN

    def _threads_of_github(self, method, rest, query, body):
        return self._shared(method, rest, query, body, "state")

    def _threads_of_gitea(self, method, rest, query, body):
        return self._shared(method, rest, query, body, "status")

    def _shared(self, method, rest, query, body, state):
        if method == "GET" and rest == "/issues":
            return [self._issue(number) for number in self._with_label(query["labels"][0])]
        if method == "GET" and rest == "/issues/comments":
            return [self._note(row) for row in self.notes if row["at"] >= query["since"][0]]
        if found := re.fullmatch(r"/issues/(\d+)(/\w+)?", rest):
            return self._of_issue(method, int(found[1]), found[2] or "", body)
        if found := re.fullmatch(r"/pulls/(\d+)", rest):
            return self._shown_pull(int(found[1])) if method == "GET" else None
        if found := re.fullmatch(r"/pulls/(\d+)/comments", rest):
            return [self._line(row) for row in self.line_notes if row["number"] == int(found[1])]
        if found := re.fullmatch(r"/pulls/(\d+)/reviews", rest):
            rows = [row for row in self.line_notes if row["number"] == int(found[1])]
            at = [{"id": row["id"], "user": self.person(row["by"]), "body": "", "state": "COMMENT"} for row in rows]
            return at
        if found := re.fullmatch(r"/pulls/(\d+)/reviews/(\d+)/comments", rest):
            return [self._line(row) for row in self.line_notes if row["id"] == int(found[2])]
        if found := re.fullmatch(r"/commits/(\w+)/statuses", rest):
            words = {"passed": "success", "failed": "failure", "running": "pending"}
            return [
                {"id": row["id"], "context": row["name"], state: words[row["state"]], "description": row["summary"]}
                for row in self.statuses
                if row["sha"] == found[1] and (self.kind == "gitea" or row["name"] != "ci")
            ]
        if found := re.fullmatch(r"/commits/(\w+)/check-runs", rest):
            rows = [row for row in self.statuses if row["sha"] == found[1] and row["name"] == "ci"][:1]
            return {"check_runs": [self._check_run(row) for row in rows]}
        return None

    def _of_issue(self, method, number, what, body):
        if method == "POST" and what == "/comments":
            is_pull = number not in self.issues
            return {"id": self.comment(number, body["body"], OURS, is_pull=is_pull)}
        if what == "/comments":
            return [self._note(row) for row in self.notes if row["number"] == number]
        if what == "/events":
            rows = [each for each in self.labels if each[0] == number]
            return [{"event": "labeled", "label": {"name": name}, "actor": self.person(by)} for _, name, by in rows]
        if what == "/timeline":
            rows = [each for each in self.labels if each[0] == number]
            return [
                {"type": "label", "body": "1", "label": {"name": name}, "user": self.person(by)} for _, name, by in rows
            ]
        return self._issue(number) if number in self.issues else None

    def _with_label(self, label: str) -> list[int]:
        return list(dict.fromkeys(number for number, name, _ in self.labels if name == label))

    def _issue(self, number: int) -> dict:
        about = self.issues[number]
        return {"number": number, "html_url": f"{self.address}/issues/{number}", "pull_request": None, **about}

    def _note(self, row: dict) -> dict:
        kind = "pull" if row["is_pull"] else "issues"
        url = f"{self.address}/{kind}/{row['number']}"
        about = {"id": row["id"], "user": self.person(row["by"]), "body": row["text"], "created_at": row["at"]}
        return about | {"html_url": f"{url}#issuecomment-{row['id']}", "issue_url": url}

    def _line(self, row: dict) -> dict:
        about = {"id": row["id"], "user": self.person(row["by"]), "body": row["text"], "created_at": row["at"]}
        return about | {"path": row["path"], "line" if self.kind == "github" else "position": row["line"]}

    def _check_run(self, row: dict) -> dict:
        over = row["state"] != "running"
        conclusion = {"passed": "success", "failed": "failure"}.get(row["state"])
        about = {"id": row["id"], "name": row["name"], "status": "completed" if over else "in_progress"}
        return about | {"conclusion": conclusion, "output": {"title": "", "summary": row["summary"]}}

    def _shown_pull(self, number: int) -> dict:
        pull = self._pull(number)
        state = pull.get("state", "open")
        shown = self._shown(pull) | {"state": "open" if state == "open" else "closed", "merged": state == "merged"}
        shown["head"] |= {"sha": self.tip(pull["head"])}
        return shown | {"merged_by": self.person(pull["by"]) if "by" in pull else None}

    def _threads_of_gitlab(self, method, rest, query, body):
        if method == "GET" and rest == "/issues":
            return [self._gitlab_issue(number) for number in self._with_label(query["labels"][0])]
        if method == "GET" and rest == "/events":
            return [{"action_name": "commented on", "note": self._gitlab_note(row)} for row in self.notes]
        if found := re.fullmatch(r"/issues/(\d+)", rest):
            return self._gitlab_issue(int(found[1]))
        if found := re.fullmatch(r"/issues/(\d+)/resource_label_events", rest):
            rows = [each for each in self.labels if each[0] == int(found[1])]
            return [{"action": "add", "label": {"name": name}, "user": self.person(by)} for _, name, by in rows]
        if found := re.fullmatch(r"/(issues|merge_requests)/(\d+)/notes", rest):
            number, is_pull = int(found[2]), found[1] == "merge_requests"
            if method == "POST":
                return {"id": self.comment(number, body["body"], OURS, is_pull=is_pull)}
            rows = [row for row in self.notes if (row["number"], row["is_pull"]) == (number, is_pull)]
            lines = [row for row in self.line_notes if is_pull and row["number"] == number]
            return [self._gitlab_note(row) for row in (*rows, *lines)]
        if method == "GET" and (found := re.fullmatch(r"/merge_requests/(\d+)", rest)):
            pull = self._pull(int(found[1]))
            state = {"open": "opened"}.get(pull.get("state", "open"), pull.get("state"))
            by = self.person(pull["by"]) if "by" in pull else None
            return self._merge_request(pull) | {"state": state, "sha": self.tip(pull["head"]), "merge_user": by}
        if found := re.fullmatch(r"/repository/commits/(\w+)/statuses", rest):
            words = {"passed": "success", "failed": "failed", "running": "running"}
            seen = {row["name"]: row for row in reversed(self.statuses) if row["sha"] == found[1]}
            return [
                {"id": row["id"], "name": name, "status": words[row["state"]], "description": row["summary"]}
                for name, row in seen.items()
            ]
        return None

    def _gitlab_issue(self, number: int) -> dict:
        about = {"title": self.issues[number]["title"], "description": self.issues[number]["body"]}
        return {"iid": number, "web_url": f"{self.address}/-/issues/{number}"} | about

    def _gitlab_note(self, row: dict) -> dict:
        place = {"position": {"new_path": row["path"], "new_line": row["line"]}} if "path" in row else {}
        about = {"id": row["id"], "author": self.person(row["by"]), "body": row["text"], "created_at": row["at"]}
        kind = "MergeRequest" if row.get("is_pull", True) else "Issue"
        about |= {"noteable_type": kind, "noteable_iid": row["number"], "system": False}
        return about | place | {"type": "DiffNote" if place else None}

    # Webhooks -------------------------------------------------------------------------------------------------------

    def webhook(self, secret: str, name: str = "delivery-1", **about) -> tuple[bytes, dict]:
        """Return the body and the headers of a webhook about the repository."""
        where = {"html_url": self.address, "full_name": "team/shop"}
        subject = {"project": {"web_url": self.address}} if self.kind == "gitlab" else {"repository": where}
        body = json.dumps(subject | about).encode()
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        github = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": name}
        gitea = github | {"X-Gitea-Signature": digest, "X-Gitea-Delivery": name}
        return body, {
            "github": github,
            "gitea": gitea,
            "forgejo": gitea | {"X-Forgejo-Signature": digest, "X-Forgejo-Delivery": name},
            "gitlab": {"X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": name},
        }[self.signs_as]

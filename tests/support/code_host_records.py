"""A code host that also has issues, comments, reviews, labels and releases, as the hosts' API documents describe them.

Each is kept as the calls leave it, so that a test reads what was changed and what was not.
"""

import re

from tests.support.code_host import TOKEN, CodeHost

PROJECTS = {
    "github": "/api/v3/repos/team/shop",
    "gitea": "/api/v1/repos/team/shop",
    "gitlab": "/api/v4/projects/team/shop",
}
NOT_FOUND = (404, {"message": "Not Found"})


class FullCodeHost(CodeHost):
    """`issues`: {number: {state, labels}}; `comments`, `line_comments`, `reviews`: {id: …}; `labels`: {name: id};
    `releases`: {tag: id}; `merged`, `closed`: numbers of pull requests.
    """

    def __init__(self, kind: str, root=None, **how):
        super().__init__(kind, root, **how)
        self.issues, self.comments, self.line_comments, self.reviews = {}, {}, {}, {}
        self.labels, self.releases, self.merged, self.closed = {}, {}, set(), set()

    def answer(self, method, path, query, headers, body):
        project = PROJECTS[self.kind]
        sent = {headers.get("Authorization"), headers.get("PRIVATE-TOKEN")}
        is_ours = sent & {f"Bearer {TOKEN}", f"token {TOKEN}", TOKEN}
        if method not in self.fails_to and is_ours and path.startswith(project + "/"):
            answers = self._like_gitlab if self.kind == "gitlab" else self._like_github
            if (told := answers(method, path.removeprefix(project), body)) is not None:
                return told
        return super().answer(method, path, query, headers, body)

    def _like_github(self, method: str, rest: str, body):
        for pattern, answer in (
            (r"/pulls/(\d+)", self._pull),
            (r"/issues/(\d+)", self._issue),
            (r"/issues/comments/(\d+)", self._comment),
            (r"/pulls/comments/(\d+)", self._line_comment),
            (r"/pulls/\d+/reviews", self._reviews),
            (r"/pulls/\d+/reviews/(\d+)", self._review),
            (r"/pulls/\d+/reviews/(\d+)/dismissals", self._dismissal),
            (r"/issues/(\d+)/labels(?:/(.+))?", self._issue_label),
            (r"/labels(?:/(.+))?", self._label),
            (r"/releases/(?:tags/)?(.+)", self._release),
        ):
            if found := re.fullmatch(pattern, rest):
                return answer(method, body, *found.groups())
        return None

    def _pull(self, method, body, number):
        if method == "PATCH" and "state" in body:
            (self.closed.add if body["state"] == "closed" else self.closed.discard)(int(number))
        elif method != "GET":
            return None
        return 200, {"number": int(number), "state": self._state(int(number)), "merged": int(number) in self.merged}

    def _state(self, number: int) -> str:
        return "closed" if number in self.closed | self.merged else "open"

    def _issue(self, method, body, number):
        issue = self.issues.get(int(number))
        if issue is None:
            return NOT_FOUND
        if method == "PATCH":
            issue |= body
        return 200, {"state": issue["state"], "labels": [{"name": name} for name in issue["labels"]]}

    def _comment(self, method, body, number):
        if int(number) not in self.comments:
            return NOT_FOUND
        return (204, None) if method == "DELETE" and self.comments.pop(int(number)) else (200, {"id": int(number)})

    def _line_comment(self, method, body, number):
        if int(number) not in self.line_comments:
            return NOT_FOUND
        return (204, None) if method == "DELETE" and self.line_comments.pop(int(number)) else (200, {"id": int(number)})

    def _reviews(self, method, body):
        return 200, [{"id": pk, **told} for pk, told in self.reviews.items()]

    def _review(self, method, body, number):
        return (200, {"id": int(number), **self.reviews[int(number)]}) if int(number) in self.reviews else NOT_FOUND

    def _dismissal(self, method, body, number):
        if method != {"github": "PUT", "gitea": "POST"}[self.kind] or not body["message"]:
            return 422, {"message": "Unprocessable"}
        self.reviews[int(number)] |= {"state": "DISMISSED"} if self.kind == "github" else {"dismissed": True}
        return 200, self.reviews[int(number)]

    def _issue_label(self, method, body, number, label):
        labels = self.issues[int(number)]["labels"]
        by_id = {self.labels.get(name): name for name in self.labels}
        if method == "DELETE":
            name = label if self.kind == "github" else by_id.get(int(label))
            if name not in labels:
                return NOT_FOUND
            labels.remove(name)
            return 200, []
        labels += [name if self.kind == "github" else by_id[name] for name in body["labels"]]
        return 200, []

    def _label(self, method, body, label):
        if label is None:
            return 200, [{"id": pk, "name": name} for name, pk in self.labels.items()]
        name = label if self.kind == "github" else next((n for n, pk in self.labels.items() if str(pk) == label), None)
        if name not in self.labels:
            return NOT_FOUND
        if method == "DELETE":
            del self.labels[name]
            return 204, None
        return 200, {"name": name}

    def _release(self, method, body, named):
        tag = next((tag for tag, pk in self.releases.items() if named in (tag, str(pk))), None)
        if tag is None:
            return NOT_FOUND
        if method == "DELETE":
            del self.releases[tag]
            return 204, None
        return 200, {"id": self.releases[tag], "tag_name": tag}

    def _like_gitlab(self, method: str, rest: str, body):
        if found := re.fullmatch(r"/(merge_requests|issues)/(\d+)/notes/(\d+)", rest):
            return self._comment(method, body, found[3])
        if found := re.fullmatch(r"/merge_requests/(\d+)/(approvals|unapprove)", rest):
            if found[2] == "unapprove":
                self.reviews.pop(int(found[1]), None)
                return 201, None
            return 200, {"user_has_approved": int(found[1]) in self.reviews}
        if found := re.fullmatch(r"/labels/(.+)", rest):
            return self._label_of_gitlab(method, found[1])
        if found := re.fullmatch(r"/releases/(.+)", rest):
            return self._release(method, body, found[1])
        if found := re.fullmatch(r"/(merge_requests|issues)/(\d+)", rest):
            return self._item(method, body, found[1] == "merge_requests", int(found[2]))
        return None

    def _label_of_gitlab(self, method, name):
        if name not in self.labels:
            return NOT_FOUND
        if method == "DELETE":
            del self.labels[name]
            return 204, None
        return 200, {"name": name}

    def _item(self, method, body, is_pull, number):
        """A merge request or an issue, whose state and labels one call changes."""
        event = (body or {}).get("state_event")
        issue = self.issues.get(number)
        if issue is None and not is_pull:
            return NOT_FOUND
        issue = issue or {"state": "open", "labels": []}
        if method == "PUT" and is_pull and event:
            (self.closed.add if event == "close" else self.closed.discard)(number)
        elif method == "PUT":
            issue |= {"state": "closed" if event == "close" else "open"} if event else {}
            issue["labels"] += filter(None, [body.get("add_labels")])
            issue["labels"] = [name for name in issue["labels"] if name != body.get("remove_labels")]
        state = self._state(number) if is_pull else issue["state"]
        said = "merged" if is_pull and number in self.merged else {"open": "opened"}.get(state, state)
        return 200, {"iid": number, "state": said, "labels": issue["labels"]}

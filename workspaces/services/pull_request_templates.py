"""The template of a repository's pull requests: where each host looks for it, and where our description goes in it."""

import re

GITHUB = (".github/pull_request_template", "pull_request_template", "docs/pull_request_template")
GITLAB = (".gitlab/merge_request_templates/default",)
GITEA = (".gitea/pull_request_template", *GITHUB)
FORGEJO = (".forgejo/pull_request_template", *GITEA)
# By kind of host, without an ending, in lower case; a host that is not known looks in all of them.
PLACES = {"github": GITHUB, "gitlab": GITLAB, "gitea": GITEA, "forgejo": FORGEJO, "": (*FORGEJO, *GITLAB)}
HEADING = re.compile(r"^#{1,6}[ \t](.*)$", re.MULTILINE)
LONGEST = 200  # characters of a heading that can be ours
# pattern: meets no more than LONGEST characters
OURS = re.compile(r"\W*(description|summary|overview|(proposed |describe )?(your )?changes|what\b.*)\W*", re.IGNORECASE)


def filled(template: str, description: str) -> str:
    """Return the template with the description in its empty section for it, else after it."""
    text = _readable(template)
    if not text:
        return description
    headings = list(HEADING.finditer(_without_comments(text)))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):
        title = heading[1].strip(" \t#")
        is_ours = len(title) <= LONGEST and OURS.fullmatch(title)
        if is_ours and not _without_comments(text)[heading.end() : end].strip():
            before, after = text[:end].rstrip(), text[end:].strip()
            return "\n\n".join(part for part in (before, description, after) if part)
    return f"{text}\n\n{description}"


def _readable(template: str) -> str:
    """Return a template without the head that tells a host about it, and without hidden characters."""
    text = re.sub(r"\A---\n.*?\n---\n", "", template.replace("\r\n", "\n"), flags=re.DOTALL)
    return "".join(each for each in text if each.isprintable() or each in "\n\t").strip()


def _without_comments(text: str) -> str:
    """Return the text with spaces in place of its comments, so that places in it stay the same.

    One without an end reaches to the end of the text, as in Markdown.
    """
    return re.sub(r"<!--.*?(?:-->|\Z)", _spaces, text, flags=re.DOTALL)


def _spaces(comment: re.Match) -> str:
    return "\n".join(" " * len(line) for line in comment[0].split("\n"))

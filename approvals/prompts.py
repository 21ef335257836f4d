"""Keep what a person asked an agent last, so that a card can show where a request comes from.

The agent's side tells it, and nothing checks it. It decides nothing: modules that judge calls cannot import this one.
"""

import re
from datetime import timedelta

from approvals.agents.own_words import is_of_the_program
from approvals.evaluation import without_credentials
from approvals.models import Action, SessionPrompt
from dashboard import clock, redaction
from workspaces import secrets

MAX_TEXT = 4000  # characters of a prompt that are kept
MAX_READ = 64_000  # characters that are searched for secret values
MAX_KEPT = 20  # prompts of one session
# What looks like a key or a password, of which people paste some: replaced by [secret].
KEYS = re.compile(
    r"\b(?:(?:sk|rk|pk|whsec|glpat)[-_]|gh[oprsu]_|github_pat_|xox[a-z]-|AKIA|eyJ|ya29\.)[-_.A-Za-z0-9]{8,}"
    r"|(?<=-----BEGIN )[A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)",
    re.DOTALL,
)
NAMED = re.compile(r"(?i)\b((?:pass(?:word|wd|phrase)|secret|token|api[_-]?key)\w*\s*[:=]\s*)(?!\[secret\b)[^\s,;]{4,}")
LOOKS_BACK = timedelta(days=30)  # as long as cards look back (approvals.pages.earlier); retention deletes older ones


def keep(agent, session: str, text: str, workspace=None):
    """Keep a prompt without known secret values; the session's oldest make room."""
    text = text[:MAX_READ].replace("\0", "␀").strip()
    if not session or not text or is_of_the_program(text):
        return
    text = masked(text, [workspace] if workspace else [])
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    of_session = SessionPrompt.objects.filter(agent=agent, session=session)
    SessionPrompt.objects.create(agent=agent, session=session, text=text, at=clock.now())
    old = of_session.order_by("-at", "-pk").values_list("pk", flat=True)[MAX_KEPT:]
    SessionPrompt.objects.filter(pk__in=list(old)).delete()


def masked(text: str, workspaces) -> str:
    """Return a person's text without the secret values of these workspaces, and without what looks like one."""
    for workspace in workspaces:
        text = secrets.without_values(workspace, text)
    text = without_credentials(redaction.clean(text))
    return NAMED.sub(r"\1[secret]", KEYS.sub("[secret]", text))


def before(action: Action) -> SessionPrompt | None:
    """Return the last prompt of the action's session before it was asked for; None if there is none."""
    if not action.session:
        return None
    of_session = SessionPrompt.objects.filter(agent=action.agent_id, session=action.session)
    since = action.created_at - LOOKS_BACK
    return of_session.filter(at__lte=action.created_at, at__gte=since).order_by("-at", "-pk").first()

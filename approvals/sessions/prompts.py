"""Keep what a person asked an agent last, so that a card can show where a request comes from.

The agent's side tells it, and nothing checks it. It decides nothing: modules that judge calls cannot import this one.
"""

from datetime import timedelta

from approvals.agents.own_words import is_of_the_program
from approvals.models import Action, SessionPrompt
from dashboard.database import clock
from workspaces.secrets.masking import masked

MAX_TEXT = 4000  # characters of a prompt that are kept
MAX_READ = 64_000  # characters that are searched for secret values
MAX_KEPT = 20  # prompts of one session
LOOKS_BACK = timedelta(days=30)  # as long as cards look back (approvals.pages.earlier); retention deletes older ones


def save(agent, session: str, text: str, workspace=None):
    """Keep a prompt without known secret values; the session's oldest make room."""
    text = text[:MAX_READ].replace("\0", "␀").strip()
    if not session or not text or is_of_the_program(text):
        return
    text = masked(text, workspace)
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    of_session = SessionPrompt.objects.filter(agent=agent, session=session)
    SessionPrompt.objects.create(agent=agent, session=session, text=text, at=clock.now())
    old = of_session.order_by("-at", "-pk").values_list("pk", flat=True)[MAX_KEPT:]
    SessionPrompt.objects.filter(pk__in=list(old)).delete()


def before(action: Action) -> SessionPrompt | None:
    """Return the last prompt of the action's session before it was asked for; None if there is none."""
    if not action.session:
        return None
    of_session = SessionPrompt.objects.filter(agent=action.agent_id, session=action.session)
    since = action.created_at - LOOKS_BACK
    return of_session.filter(at__lte=action.created_at, at__gte=since).order_by("-at", "-pk").first()

"""Which files are read as transcripts: only those that can be one of the session that names them.

An agent names the path, so it is no proof of anything: the folder, the name and the kind of the file are checked. The
path of an agent that works inside a workspace is one below the home there, and is opened below that home alone.
"""

import os
import stat
from contextlib import closing, contextmanager
from pathlib import PurePosixPath

from django.db import IntegrityError, transaction

from approvals.agents import transcript_files
from approvals.agents.transcripts import CONVERSATIONS
from approvals.models import AgentSession, Follow
from workspaces.host import paths
from workspaces.store import LocalTree
from workspaces.store.files import Opened

HOME = "/home/agent/"  # of the agent in a workspace
MAX_FOLLOWED = 8  # transcripts of one session


def follow(session: AgentSession, path: str, caller):
    """Note that a transcript is to be imported, if it is within reach and can be the session's."""
    if not path or session.transcript == path or not _is_reached(session, path, caller) or not can_be(session, path):
        return
    if session.follows.count() >= MAX_FOLLOWED:
        return
    AgentSession.objects.filter(pk=session.pk).update(transcript=path)
    session.transcript = path
    try:
        with transaction.atomic():
            Follow.objects.get_or_create(session=session, path=path)
    except IntegrityError:
        pass  # another hook noted it at the same moment


def follow_first(session: AgentSession, told: list[str], caller):
    """Follow the first of these paths that can be the session's transcript."""
    follow(session, next((path for path in told if can_be(session, path)), ""), caller)


def _is_reached(session: AgentSession, path: str, caller) -> bool:
    """Return whether the path is one of this machine, or one in the home of the session's workspace."""
    if session.workspace_id is None:
        return caller.workspace_id is None
    return not is_inside(session) or path.startswith(HOME)


def is_inside(session: AgentSession) -> bool:
    """Return whether the agent works in a workspace with a home of its own, where its transcript is."""
    return session.workspace_id is not None and not session.workspace.environment.capabilities.own_folder


def can_be(session: AgentSession, path: str) -> bool:
    """Return whether a path can be this session's transcript: it has its folder and its id in its name."""
    agent = CONVERSATIONS.get(session.dialect)
    is_one = agent is not None and transcript_files.can_be(path, agent.FOLDER)
    return is_one and PurePosixPath(path).name.endswith(f"{session.native_id}.jsonl")


def home_at_rest(session: AgentSession):
    """Return the tree whose home has the session's transcript; None if it is a guest's, whose home is on its disk."""
    workspace = session.workspace
    if workspace.environment.capabilities.files_need_run:
        return None
    return LocalTree(paths.tree_of(workspace), home=paths.folder_of(workspace.pk) / "home")


@contextmanager
def open_transcript(follow: Follow, tree=None):
    """Open a regular file that is reached without symlinks; `tree` has the home if the agent works in a workspace.

    Yield an object with `info` and `pread(length, offset)`. OSError if the path is anything else.
    """
    if is_inside(follow.session):
        below = os.fsencode(str(PurePosixPath(follow.path).relative_to(HOME)))
        with tree.files("home") as home:
            opened = home.open(below)
    else:
        opened = Opened(transcript_files.open_here(follow.path))
    with closing(opened) as file:
        if not stat.S_ISREG(file.info.st_mode):
            raise OSError("it is no regular file")
        yield file

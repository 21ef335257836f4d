"""One simple command of a text, as the reader of scripts collects it."""

from dataclasses import dataclass, field


@dataclass
class Redirect:
    op: str
    words: list  # of a here-document its text
    fd: str = ""  # the descriptor, if one is written


@dataclass
class Simple:
    """One simple command: words, leading assignments, redirects, and the folders it may run in."""

    text: str
    words: list = field(default_factory=list)
    assigns: list = field(default_factory=list)
    redirects: list = field(default_factory=list)
    cwds: tuple = ()
    fed_by: object = None
    form: str = "call"  # or "declaration", "arithmetic", "compound": shell forms that are not programs
    moved: bool = False  # it runs in another folder than the workspace's root
    unclear: list = field(default_factory=list)
    output: str = ""  # the host whose text it prints (see downloads)
    piped: bool = False  # another command reads what it prints
    fills: list = field(default_factory=list)  # the commands in each of its `>(…)`
    downloaded: str = ""  # the host whose text or file it runs
    brought_as: str = "a script"  # what that is; or "a project", "a package"
    brings: dict = field(default_factory=dict)  # {path: host} of the files that it brings
    of_earlier_call: bool = False  # an earlier call downloaded that file

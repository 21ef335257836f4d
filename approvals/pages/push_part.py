"""The target of Handrail's own push or pull request, at the top of its card."""

from dataclasses import dataclass, field

from approvals.evaluation.own_verbs import PUSHES
from dashboard import json_text
from workspaces import code_hosts

SHOWN = ("branch", "base", "title", "body")  # arguments that have a place of their own


@dataclass(frozen=True)
class ShownPush:
    """Where a push goes; of a pull request also the branch that it goes into, and its texts."""

    remote: str
    branch: str
    is_to_default: bool
    is_pull_request: bool = False
    base: str = ""
    is_into_default: bool = False
    title: str = ""
    body: str = ""
    others: list[tuple[str, str]] = field(default_factory=list)


class PushPart:
    """The card has `action` and `arguments`."""

    @property
    def push(self) -> ShownPush | None:
        """None for any other call, and for one whose arguments are not those of a push."""
        wish, workspace = self.arguments, self.action.workspace
        if self.action.tool not in PUSHES or workspace is None:
            return None
        named = {name: wish.get(name) or "" for name in SHOWN}
        if not all(isinstance(value, str) for value in named.values()):
            return None
        default = workspace.default_branch
        is_pull_request = self.action.tool != "Handrail.Push"
        base = named["base"] or (default if is_pull_request else "")
        others = [(name, value) for name, value in wish.items() if name not in SHOWN]
        return ShownPush(
            **named | {"base": base},
            remote=workspace.remote,
            is_to_default=bool(default) and code_hosts.same_branch(named["branch"], default),
            is_pull_request=is_pull_request,
            is_into_default=is_pull_request and (not named["base"] or code_hosts.same_branch(base, default)),
            others=[(n, v if isinstance(v, str) else json_text.dumps(v, ensure_ascii=False)) for n, v in others],
        )

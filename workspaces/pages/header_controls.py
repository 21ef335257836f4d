"""The buttons of a workspace's head: the two of its state, and the menu with the others."""

from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from django.urls import reverse
from django.utils.translation import gettext

from workspaces.models import Operation, State, StateCode
from workspaces.services.hosts import moving

IN_SIGHT = 2  # buttons beside the menu


@dataclass(frozen=True)
class Control:
    """A button of the head: a form that posts, or a link to a page that asks or shows."""

    label: str
    address: str
    posts: bool = False
    tone: str = ""  # primary, danger
    key: str = ""  # that presses it
    is_safe: bool = False  # it changes nothing, so it stays on while the workspace changes its state


class Controls:
    """The part of `Head` that says what its caller can do."""

    @cached_property
    def controls(self) -> list[Control]:
        """Every button for the current state, the ones that are most needed first."""
        return [*self._of_state, *self._to_work, *self._files, *self._asks, *self._ends]

    @property
    def in_sight(self) -> list[Control]:
        return self._of_state[:IN_SIGHT]

    @property
    def in_menu(self) -> list[Control]:
        return self.controls[len(self.in_sight) :]

    @property
    def why_off(self) -> str:
        """Why its buttons do nothing now; "" if they work."""
        if not self.is_moving or not self.may_use:
            return ""
        return gettext("%(state)s: buttons work again once this is done.") % {"state": self.state_words}

    @cached_property
    def _of_state(self) -> list[Control]:
        if self.workspace.trashed_at or not self.may_use:
            return []
        again = "primary" if self.ended_by_itself or self.workspace.state in (State.STOPPED, State.ARCHIVED) else ""
        resume = self._form(gettext("Resume"), "workspace-resume", again)
        stop = self._form(gettext("Stop"), "workspace-stop")
        restart = self._link(gettext("Restart from…"), "workspace-return")
        return {
            State.READY: [*self._terminal, *self._push, *self._pauses, stop],
            State.PAUSED: [resume, *self._terminal, *self._push, stop, restart],
            State.STOPPED: [resume, restart],
            State.ARCHIVED: [resume],
            State.FAILED: [self._form(gettext("Try again"), "workspace-retry", "primary")],
        }.get(self.workspace.state, [])

    @property
    def _terminal(self) -> list[Control]:
        if not self.opens_terminal:
            return []
        key = "t" if self.tab == "workspace" else ""  # on the other pages it leads to the list of terminals
        if terminal := self.live_terminal:
            return [self._link(gettext("Terminal"), "terminal", terminal.pk, key=key)]
        return [self._form(gettext("Open terminal"), "terminal-open", key=key)]

    @property
    def _push(self) -> list[Control]:
        return [self._link(gettext("Push…"), "workspace-export")] if self.may_push else []

    @property
    def _pauses(self) -> list[Control]:
        if self.workspace.environment.ephemeral:  # stopped instead: lifecycle.pause refuses
            return []
        found = [self._form(gettext("Pause"), "workspace-pause")]
        if self._keeps_memory:
            found.append(self._form(gettext("Pause without memory"), "workspace-pause-files"))
        return found

    @property
    def _to_work(self) -> list[Control]:
        found = []
        if self.may_start_agent:
            place = f"{self.workspace.team.slug}/{quote(self.workspace.key, safe='')}"
            found.append(Control(gettext("Start an agent…"), f"{reverse('agent-run-new')}?workspace={place}"))
        return found

    @property
    def _files(self) -> list[Control]:
        found = []
        if self.can_snapshot:
            found.append(self._link(gettext("Take a snapshot…"), "workspace-snapshots"))
            if self.workspace.state != State.READY:
                found.append(self._form(gettext("Compare every byte"), "workspace-prove"))
        if self.may_keep_checkpoint:
            found.append(self._link(gettext("Keep as checkpoint…"), "workspace-checkpoints"))
        if self.workspace.repository_files and not self.workspace.trashed_at:
            found.append(self._link(gettext("Suggested set-up"), "workspace-suggested", is_safe=True))
        if self.about.may_change:
            found.append(self._link(gettext("Edit details…"), "workspace-details", is_safe=True))
        if not self.workspace.own_folder:
            found.append(self._link(gettext("Installed programs"), "workspace-installed", is_safe=True))
        return found

    @property
    def _asks(self) -> list[Control]:
        """What replaces files: each leads to a page that says what goes."""
        found = []
        if self.may_reset and self.workspace.head:
            label = gettext("Restore snapshot %(number)s…") % {"number": self.workspace.head.number}
            found.append(self._link(label, "snapshot-restore", self.workspace.head.number))
            found.append(self._link(gettext("Reset to after setup…"), "workspace-reset"))
        return found

    @property
    def _ends(self) -> list[Control]:
        found = [self._link(gettext("Move…"), "workspace-move")] if self.may_move else []
        if self.may_archive:
            found.append(self._link(gettext("Archive…"), "workspace-archive"))
        if self.may_delete and not self.workspace.trashed_at:
            found.append(self._link(gettext("Move to trash…"), "workspace-delete", tone="danger"))
        return found

    def _form(self, label: str, name: str, tone: str = "", **more) -> Control:
        return Control(label, self._here(name), posts=True, tone=tone, **more)

    def _link(self, label: str, name: str, *at, **more) -> Control:
        return Control(label, self._here(name, *at), **more)

    def _here(self, name: str, *at) -> str:
        return reverse(name, args=[self.workspace.team.slug, self.workspace.key, *at])

    # Rights ----------------------------------------------------------------------------------------------------------

    def _may(self, verb: str) -> bool:
        return self.caller.can(verb, self.workspace.team_id)

    @property
    def may_use(self) -> bool:
        return self._may("use_workspace")

    @property
    def may_rebuild(self) -> bool:
        return self._may("manage_environments")

    @property
    def may_hold(self) -> bool:
        return self._may("hold_calls")

    @property
    def may_put_hook_back(self) -> bool:
        return self._may("put_hook_back")

    @property
    def may_keep_secrets(self) -> bool:
        return self._may("manage_secrets")

    @property
    def may_set_holds(self) -> bool:
        return self._may("hold")

    @property
    def may_delete_snapshot(self) -> bool:
        return self._may("delete_snapshot")

    @property
    def may_restore(self) -> bool:
        return self._may("restore")

    @property
    def may_fork(self) -> bool:
        """Connected folders cannot be forked (provisioning.eligibility)."""
        forks = not self.workspace.environment.capabilities.own_folder and not self.workspace.trashed_at
        return forks and self._may("create_workspace")

    @property
    def may_delete(self) -> bool:
        return self._may("delete_workspace")

    @property
    def may_move(self) -> bool:
        movable = self.workspace.state in moving.STATES and not self.workspace.trashed_at
        return movable and not self.workspace.own_folder and self._may("move_workspace")

    @property
    def may_start_agent(self) -> bool:
        """Whether its environment names agents that the person may start here."""
        named = self.workspace.environment.agent_programs and not self.workspace.trashed_at
        return bool(named) and self._may("start_agents")

    @property
    def may_keep_checkpoint(self) -> bool:
        """Whether it is paused with memory that a person may keep under a name."""
        paused = self.workspace.state == State.PAUSED and not self.workspace.trashed_at and self._keeps_memory
        kept = paused and self.run is not None and self.run.memory_kept
        return kept and self._may("keep_checkpoint")

    @property
    def may_push(self) -> bool:
        """Whether a person can look at what a push would send to the repository that it came from."""
        is_up = self.workspace.state in (State.READY, State.PAUSED) and not self.workspace.trashed_at
        return bool(self.workspace.remote) and is_up and self.may_use

    @property
    def may_reset(self) -> bool:
        workspace = self.workspace
        settled = workspace.state in (State.READY, State.PAUSED, State.STOPPED) and not workspace.trashed_at
        return settled and workspace.baseline is not None and self.may_restore

    @property
    def may_archive(self) -> bool:
        """Whether it has files that can leave the host; also one whose files could not all be removed."""
        workspace = self.workspace
        has_files = workspace.state in (State.READY, State.PAUSED, State.STOPPED) or bool(workspace.reason)
        kept = (
            not workspace.trashed_at
            and not workspace.environment.capabilities.own_folder
            and workspace.state != State.FAILED
        )
        return kept and has_files and workspace.head is not None and self.may_use

    @property
    def can_snapshot(self) -> bool:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return settled and self.may_use and not self.workspace.trashed_at

    @property
    def opens_terminal(self) -> bool:
        usable = self.workspace.state in (State.READY, State.PAUSED) and not self.workspace.trashed_at
        usable = usable and not self.is_moving and self.out_of_reach in ("", StateCode.BACKEND_LOST)
        return usable and self._may("type_in_terminal")

    @cached_property
    def live_terminal(self):
        """The newest running terminal."""
        running = self.workspace.terminals.filter(ended_at=None, operation__in=Operation.objects.open())
        return running.order_by("-created_at").first()

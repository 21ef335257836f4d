"""Registry of operation kinds: one `Kind` object for each value of `Operation.kind`."""

from workspaces import extensions
from workspaces.runner.installed.keep import KeepInstalled
from workspaces.runner.job import Kind
from workspaces.runner.operations.allow_host import AllowHost
from workspaces.runner.operations.archiving import PutAway
from workspaces.runner.operations.checkpoints import DropCheckpoint, KeepCheckpoint, RestoreCheckpoint
from workspaces.runner.operations.create import Create
from workspaces.runner.operations.expire import Expire
from workspaces.runner.operations.export import MakeArchive, MakeBundle, Push
from workspaces.runner.operations.hold import Hold
from workspaces.runner.operations.programs import Maintain, RunCommand, RunService, RunTerminal
from workspaces.runner.operations.promote import Promote
from workspaces.runner.operations.pull_image import PullImage
from workspaces.runner.operations.pull_request import OpenPullRequest
from workspaces.runner.operations.rebuild import Rebuild
from workspaces.runner.operations.rehearse import Rehearse
from workspaces.runner.operations.resume import Prove, Resume
from workspaces.runner.operations.retention import Sweep
from workspaces.runner.operations.revise import Revise
from workspaces.runner.operations.scrub import PurgeValue, Scrub
from workspaces.runner.operations.shutdown import CloseDeadRun, Pause, Purge, Stop, Trash
from workspaces.runner.operations.snapshot import RestoreSnapshot, TakeSnapshot
from workspaces.runner.operations.store import CheckStore, CollectGarbage, RepairStore

KINDS = {
    "create": Create(),
    "resume": Resume(),
    "pause": Pause(),
    "stop": Stop(),
    "ended": CloseDeadRun(),
    "put_away": PutAway(),
    "trash": Trash(),
    "purge": Purge(),
    "forget": Expire(),
    "snapshot": TakeSnapshot(),
    "restore": RestoreSnapshot(),
    "prove": Prove(),
    "keep_checkpoint": KeepCheckpoint(),
    "restore_checkpoint": RestoreCheckpoint(),
    "drop_checkpoint": DropCheckpoint(),
    "hold": Hold(),
    "rebuild": Rebuild(),
    "revise": Revise(),
    "rehearse": Rehearse(),
    "command": RunCommand(),
    "maintain": Maintain(),
    "service": RunService(),
    "terminal": RunTerminal(),
    "archive": MakeArchive(),
    "bundle": MakeBundle(),
    "promote": Promote(),
    "keep_installed": KeepInstalled(),
    "push": Push(),
    "pull_image": PullImage(),
    "pull_request": OpenPullRequest(),
    "allow_host": AllowHost(),
    "store_check": CheckStore(),
    "store_collect": CollectGarbage(),
    "store_repair": RepairStore(),
    "retention_sweep": Sweep(),
    "scrub": Scrub(),
    "scrub_purge": PurgeValue(),
}


def kind_named(name: str) -> Kind:
    """Return the `Kind` for `Operation.kind`. Raise KeyError for a name this version does not know."""
    return extensions.kinds[name] if name in extensions.kinds else KINDS[name]

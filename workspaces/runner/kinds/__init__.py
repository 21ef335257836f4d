"""What the runner can be asked to carry out: `Effect.kind` is the dotted path of one of these."""

from workspaces.runner.kinds.allowing import AllowHost
from workspaces.runner.kinds.ends import Ended, Pause, Purge, Stop, Trash
from workspaces.runner.kinds.forgets import Forget
from workspaces.runner.kinds.leaving import MakeArchive, MakeBundle, Push
from workspaces.runner.kinds.points import RestorePoint, TakePoint
from workspaces.runner.kinds.renewing import Renew
from workspaces.runner.kinds.resumes import Prove, Resume
from workspaces.runner.kinds.running import RunCommand, RunService, RunTerminal
from workspaces.runner.kinds.starts import Create

create = Create()
resume = Resume()
pause = Pause()
stop = Stop()
ended = Ended()
trash = Trash()
purge = Purge()
forget = Forget()
snapshot = TakePoint()
restore = RestorePoint()
prove = Prove()
renew = Renew()
command = RunCommand()
service = RunService()
terminal = RunTerminal()
archive = MakeArchive()
bundle = MakeBundle()
push = Push()
allow_host = AllowHost()

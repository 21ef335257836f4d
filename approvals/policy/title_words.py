"""The words of titles: what a tool does, as a title and as the title of several alike calls, and the things it names.

All of them are msgids; the pages translate them (see phrases). Names of people, tables and tools are never among them.
"""

from .phrases import gettext_noop as _
from .shell_words import names

# {verb: (title, title of several calls)}. A verb of MADE names something that does not exist before.
DEEDS = {
    "create": (_("Create {object}"), _("{number} new {things}")),
    "add": (_("Add {object}"), _("{number} new {things}")),
    "open": (_("Open {object}"), _("{number} {things} to open")),
    "change": (_("Change {object}"), _("{number} {thing} changes")),
    "write": (_("Write {object}"), _("{number} {thing} changes")),
    "set": (_("Set {object}"), _("{number} {thing} settings")),
    "rename": (_("Rename {object}"), _("{number} {things} to rename")),
    "move": (_("Move {object}"), _("{number} {things} to move")),
    "copy": (_("Copy {object}"), _("{number} {things} to copy")),
    "delete": (_("Delete {object}"), _("{number} {thing} deletions")),
    "drop": (_("Drop {object}"), _("{number} {things} to drop")),
    "destroy": (_("Destroy {object}"), _("{number} {things} to destroy")),
    "purge": (_("Purge {object}"), _("{number} {things} to purge")),
    "empty": (_("Empty {object}"), _("{number} {things} to empty")),
    "send": (_("Send {object}"), _("{number} {things} to send")),
    "post": (_("Post {object}"), _("{number} {things} to post")),
    "publish": (_("Publish {object}"), _("{number} {things} to publish")),
    "reply": (_("Reply to {object}"), _("{number} {thing} replies")),
    "comment": (_("Comment on {object}"), _("{number} {thing} comments")),
    "review": (_("Review {object}"), _("{number} {thing} reviews")),
    "react": (_("React to {object}"), _("{number} {thing} reactions")),
    "share": (_("Share {object}"), _("{number} {things} to share")),
    "archive": (_("Archive {object}"), _("{number} {things} to archive")),
    "restore": (_("Restore {object}"), _("{number} {things} to restore")),
    "merge": (_("Merge {object}"), _("{number} {things} to merge")),
    "close": (_("Close {object}"), _("{number} {things} to close")),
    "reopen": (_("Reopen {object}"), _("{number} {things} to reopen")),
    "resolve": (_("Resolve {object}"), _("{number} {things} to resolve")),
    "approve": (_("Approve {object}"), _("{number} {thing} approvals")),
    "reject": (_("Reject {object}"), _("{number} {thing} rejections")),
    "cancel": (_("Cancel {object}"), _("{number} {things} to cancel")),
    "assign": (_("Assign {object}"), _("{number} {thing} assignments")),
    "unassign": (_("Unassign {object}"), _("{number} {things} to unassign")),
    "link": (_("Link {object}"), _("{number} {thing} links")),
    "unlink": (_("Unlink {object}"), _("{number} {things} to unlink")),
    "attach": (_("Attach {object}"), _("{number} {things} to attach")),
    "label": (_("Label {object}"), _("{number} {thing} labels")),
    "deploy": (_("Deploy {object}"), _("{number} {thing} deployments")),
    "rollback": (_("Roll back {object}"), _("{number} {things} to roll back")),
    "restart": (_("Restart {object}"), _("{number} {things} to restart")),
    "stop": (_("Stop {object}"), _("{number} {things} to stop")),
    "start": (_("Start {object}"), _("{number} {things} to start")),
    "pause": (_("Pause {object}"), _("{number} {things} to pause")),
    "resume": (_("Resume {object}"), _("{number} {things} to resume")),
    "scale": (_("Scale {object}"), _("{number} {things} to scale")),
    "reset": (_("Reset {object}"), _("{number} {things} to reset")),
    "run": (_("Run {object}"), _("{number} {things} to run")),
    "evaluate": (_("Run program text {object}"), _("{number} program texts to run")),
    "apply": (_("Apply {object}"), _("{number} {things} to apply")),
    "install": (_("Install {object}"), _("{number} {things} to install")),
    "uninstall": (_("Uninstall {object}"), _("{number} {things} to uninstall")),
    "trigger": (_("Trigger {object}"), _("{number} {things} to trigger")),
    "enable": (_("Enable {object}"), _("{number} {things} to enable")),
    "disable": (_("Disable {object}"), _("{number} {things} to disable")),
    "grant": (_("Grant {object}"), _("{number} {things} to grant")),
    "revoke": (_("Revoke {object}"), _("{number} {things} to revoke")),
    "ban": (_("Ban {object}"), _("{number} {things} to ban")),
    "lock": (_("Lock {object}"), _("{number} {things} to lock")),
    "unlock": (_("Unlock {object}"), _("{number} {things} to unlock")),
    "pin": (_("Pin {object}"), _("{number} {things} to pin")),
    "unpin": (_("Unpin {object}"), _("{number} {things} to unpin")),
    "follow": (_("Follow {object}"), _("{number} {things} to follow")),
    "unfollow": (_("Unfollow {object}"), _("{number} {things} to unfollow")),
    "mark": (_("Mark {object}"), _("{number} {things} to mark")),
    "invite": (_("Invite {object}"), _("{number} {thing} invitations")),
    "join": (_("Join {object}"), _("{number} {things} to join")),
    "leave": (_("Leave {object}"), _("{number} {things} to leave")),
    "import": (_("Import {object}"), _("{number} {thing} imports")),
    "export": (_("Export {object}"), _("{number} {thing} exports")),
    "load": (_("Load {object}"), _("{number} {thing} loads")),
    "upload": (_("Upload {object}"), _("{number} {things} to upload")),
    "download": (_("Download {object}"), _("{number} {things} to download")),
    "push": (_("Push {object}"), _("{number} {things} to push")),
    "stage": (_("Stage {object}"), _("{number} {things} to stage")),
    "commit": (_("Commit {object}"), _("{number} commits")),
    "checkout": (_("Check out {object}"), _("{number} {things} to check out")),
    "fork": (_("Fork {object}"), _("{number} {things} to fork")),
    "click": (_("Click {object}"), _("{number} clicks")),
    "type": (_("Type {object}"), _("{number} texts to type")),
    "fill": (_("Fill in {object}"), _("{number} {things} to fill in")),
    "press": (_("Press {object}"), _("{number} keys to press")),
    "select": (_("Select {object}"), _("{number} {things} to select")),
    "visit": (_("Open {object} in the browser"), _("{number} {things} to open in the browser")),
    "use": (_("Use {object}"), _("{number} {things} to use")),
    "charge": (_("Charge {object}"), _("{number} charges")),
    "refund": (_("Refund {object}"), _("{number} refunds")),
    "pay": (_("Pay {object}"), _("{number} payments")),
    "payout": (_("Pay out {object}"), _("{number} payouts")),
    "transfer": (_("Transfer {object}"), _("{number} transfers")),
    "call": (_("Call {object}"), _("{number} phone calls")),
    "read": (_("Read {object}"), _("{number} reads of {things}")),
    "list": (_("List {object}"), _("{number} lists of {things}")),
    "search": (_("Search {object}"), _("{number} searches in {things}")),
    "find": (_("Find {object}"), _("{number} searches for {things}")),
    "query": (_("Query {object}"), _("{number} queries")),
    "compare": (_("Compare {object}"), _("{number} comparisons of {things}")),
    "watch": (_("Watch {object}"), _("{number} {things} to watch")),
    "think": (_("Note {object}"), _("{number} thoughts")),
}
READING = names("read list search find query compare watch think")
MADE = names("create add open send post publish")
MONEY = names("charge refund pay payout transfer")
# The first word of a tool's name: the verb that it stands for.
VERBS = {
    verb: verb for verb in DEEDS if verb not in ("write", "visit", "think", "evaluate", "open", "use", "type", "call")
}
VERBS |= {
    "new": "create", "make": "create", "open": "open", "insert": "add", "update": "change", "edit": "change",
    "modify": "change", "remove": "delete", "execute": "run", "get": "read", "fetch": "read", "upsert": "write",
    "write": "write", "save": "write", "wipe": "empty", "truncate": "empty", "clear": "empty", "clone": "copy",
    "unpublish": "disable", "terminate": "destroy", "kill": "stop", "ban": "ban", "block": "ban", "patch": "change",
    "replace": "change", "rotate": "reset", "submit": "send", "email": "send", "notify": "send", "unarchive": "restore",
}  # fmt: skip
# What a field is called in a title, where its own name cannot stand there.
ROLES = {
    "amount": _("amount"), "currency": _("currency"), "receiver": _("recipient"), "account": _("account"),
    "branch": _("branch"), "environment": _("environment"), "path": _("file"), "url": _("address"),
    "table": _("table"), "database": _("database"), "place": _("place"), "number": _("number"), "label": _("name"),
    "on": _("object"), "statement": _("statement"),
}  # fmt: skip
A, AN, NAMED = _("a {thing}"), _("an {thing}"), _("{thing} {name}")
IN, TO, ON, INTO = _("in {place}"), _("to {receiver}"), _("on {thing}"), _("into {place}")
ROWS, MORE, AND_AMOUNT = _("{number} {things}"), _("{first} and {number} more"), _("{title}, {amount}")
BY, OF_TOOL, ALIKE = _("{title} ({server})"), _("{tool}: {values}"), _("{number} × {title}")
PRODUCTION = _("{title} in production")
A_PAYMENT = _("an unknown amount")
DETAILED, LISTED = _("{title}, {details}"), "{value},"
# Things that titles name, with their plurals; those of other tools stand as the tools name them.
THINGS = frozenset(
    [
        _("issue"), _("issues"), _("pull request"), _("pull requests"), _("merge request"), _("merge requests"),
        _("file"), _("files"), _("folder"), _("folders"), _("branch"), _("branches"), _("repository"),
        _("repositories"), _("release"), _("releases"), _("label"), _("labels"), _("comment"), _("comments"),
        _("message"), _("messages"), _("email"), _("emails"), _("email draft"), _("email drafts"), _("channel"),
        _("channels"), _("thread"), _("threads"), _("page"), _("pages"), _("block"), _("blocks"), _("database"),
        _("databases"), _("table"), _("tables"), _("collection"), _("collections"), _("document"), _("documents"),
        _("record"), _("records"), _("row"), _("rows"), _("key"), _("keys"), _("index"), _("indexes"), _("project"),
        _("projects"), _("task"), _("tasks"), _("team"), _("teams"), _("team member"), _("team members"), _("user"),
        _("users"), _("customer"), _("customers"), _("contact"), _("contacts"), _("order"), _("orders"),
        _("invoice"), _("invoices"), _("product"), _("products"), _("price"), _("prices"), _("coupon"), _("coupons"),
        _("subscription"), _("subscriptions"), _("payment"), _("payments"), _("event"), _("events"), _("calendar"),
        _("calendars"), _("incident"), _("incidents"), _("dashboard"), _("dashboards"), _("service"), _("services"),
        _("host"), _("hosts"), _("monitor"), _("monitors"), _("workflow"), _("workflows"), _("pipeline"),
        _("pipelines"), _("deployment"), _("deployments"), _("environment"), _("environments"), _("workspace"),
        _("workspaces"), _("variable"), _("variables"), _("secret"), _("secrets"), _("container"), _("containers"),
        _("image"), _("images"), _("volume"), _("volumes"), _("network"), _("networks"), _("pod"), _("pods"),
        _("resource"), _("resources"), _("bucket"), _("buckets"), _("object"), _("objects"), _("queue"), _("queues"),
        _("worker"), _("workers"), _("webhook"), _("webhooks"), _("element"), _("elements"), _("form"), _("forms"),
        _("field"), _("fields"), _("command"), _("commands"), _("process"), _("processes"), _("script"),
        _("scripts"), _("text"), _("texts"), _("note"), _("notes"), _("attachment"), _("attachments"),
        _("milestone"), _("milestones"), _("sprint"), _("sprints"), _("version"), _("versions"), _("tag"), _("tags"),
    ]
)  # fmt: skip

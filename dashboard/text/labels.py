"""The labels of states, tiers and ways back, each with the tone in which pages show it."""

from django.utils.translation import gettext_lazy

# status or state: (label, tone)
ACTION_STATES = {
    "pending": (gettext_lazy("Needs approval"), "amber"),
    "approved": (gettext_lazy("Approved – the agent hasn't picked it up"), "accent"),
    "answered": (gettext_lazy("Answered – the agent hasn't picked it up"), "accent"),  # an agent's question
    "running": (gettext_lazy("Running"), "accent"),
    "succeeded": (gettext_lazy("Done"), "calm"),
    "failed": (gettext_lazy("Failed"), "red"),
    "denied": (gettext_lazy("Denied"), "red"),
    "declined": (gettext_lazy("Declined to answer"), "red"),
    "sent_back": (gettext_lazy("Sent back"), "red"),  # an agent's plan, or a call with something to do first
    "expired": (gettext_lazy("Expired, did not run"), "quiet"),
    "cancelled": (gettext_lazy("Cancelled"), "quiet"),
    "uncertain": (gettext_lazy("Outcome unknown"), "amber"),
}
WORKSPACE_STATES = {
    "creating": (gettext_lazy("Creating"), "accent"),
    "setting_up": (gettext_lazy("Creating"), "accent"),
    "ready": (gettext_lazy("Ready"), "calm"),
    "running": (gettext_lazy("Working"), "accent"),
    "working": (gettext_lazy("Working"), "accent"),
    "frozen": (gettext_lazy("Frozen: disk full"), "red"),
    "paused": (gettext_lazy("Paused"), "quiet"),
    "stopped": (gettext_lazy("Stopped"), "quiet"),
    "archived": (gettext_lazy("Archived"), "quiet"),
    "failed": (gettext_lazy("Failed"), "red"),
    "deleted": (gettext_lazy("In trash"), "quiet"),
    "unreachable": (gettext_lazy("Can't be reached"), "amber"),
    "backend_lost": (gettext_lazy("Engine doesn't answer"), "amber"),
    "held_up": (gettext_lazy("Can't be used"), "amber"),
    "pausing": (gettext_lazy("Pausing"), "accent"),
    "stopping": (gettext_lazy("Stopping"), "accent"),
    "resuming": (gettext_lazy("Resuming"), "accent"),
    "rebuilding": (gettext_lazy("Rebuilding"), "accent"),
    "restoring": (gettext_lazy("Restoring"), "accent"),
    "updating": (gettext_lazy("Updating from its source"), "accent"),
    "maintaining": (gettext_lazy("Running the maintenance script"), "accent"),
    "archiving": (gettext_lazy("Archiving"), "accent"),
    "moving": (gettext_lazy("Moving to another place"), "accent"),
    "deleting": (gettext_lazy("Moving to the trash"), "accent"),
}
OPERATION_PHASES = {
    "due": (gettext_lazy("Queued"), "quiet"),
    "claimed": (gettext_lazy("Starting"), "accent"),
    "started": (gettext_lazy("Running"), "accent"),
    "settled": (gettext_lazy("Done"), "calm"),
    "uncertain": (gettext_lazy("Outcome unknown"), "amber"),
}
STATES = {"action": ACTION_STATES, "workspace": WORKSPACE_STATES, "operation": OPERATION_PHASES}
TIERS = {
    "low": (gettext_lazy("Low"), "calm"),
    "medium": (gettext_lazy("Medium"), "quiet"),
    "high": (gettext_lazy("High"), "amber"),
    "critical": (gettext_lazy("Critical"), "plum"),
    "forbidden": (gettext_lazy("Forbidden"), "red"),
}
# What the kernel, or the proxy, refused to a held program.
REFUSALS = {
    "read": gettext_lazy("Read"),
    "write": gettext_lazy("Write"),
    "connect": gettext_lazy("Connect to"),
    "socket": gettext_lazy("Open a socket"),
    "syscall": gettext_lazy("System call"),
}
UNDO = {
    "yes": (gettext_lazy("Reversible"), "calm", "undo"),
    "partly": (gettext_lazy("Partly reversible"), "amber", "partly"),
    "outside": (gettext_lazy("Can be undone outside"), "amber", "undo"),
    "unknown": (gettext_lazy("Unknown if reversible"), "amber", "unknown"),
    "no": (gettext_lazy("Can't be undone"), "red", "no-undo"),
    "kept": (gettext_lazy("No snapshot of it"), "quiet", "partly"),
    "gone": (gettext_lazy("Can't be undone now: its snapshot was deleted"), "quiet", "no-undo"),
}

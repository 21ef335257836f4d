"""The reason why a workspace ended by itself, in one wording for its page, the Desk, its programs and the API."""

from workspaces.models import EndCode

SENTENCES = {
    EndCode.OUT_OF_MEMORY: "It ran out of memory; its programs were stopped.",
    EndCode.HOST_RESTARTED: "The machine was restarted, which ended its programs.",
}
# The ends of a Run that nobody asked for.
BY_ITSELF = (
    EndCode.OUT_OF_MEMORY,
    EndCode.HOST_RESTARTED,
    EndCode.CRASHED,
    EndCode.BACKEND_LOST,
    EndCode.REMOVED,
    EndCode.UNSEEN,
    EndCode.LOST,
    EndCode.UNKNOWN,
)


async def reason_of(code: EndCode, driver, record) -> str:
    """Return the reason of an end that a driver found, for `Run.end_reason`. DriverError if it cannot tell."""
    if code == EndCode.CRASHED:
        return await driver.how_it_crashed(record) or f"its {driver.unit} was killed or crashed"
    return code.label


def sentence(code: str, reason: str) -> str:
    """Return what to say of a Run that ended by itself, from its code and reason."""
    return SENTENCES.get(code) or (reason if reason.endswith(".") else f"It ended by itself: {reason}.")

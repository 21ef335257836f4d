"""What the cluster says of a pod, in words: whether it can start, how it ended, and where it is."""

from dataclasses import dataclass

# What a kubelet says of a container that waits: (seconds until it is given up, sentence)
WAITING = {
    "ErrImageNeverPull": (0, "its image is not on the node, and the node must not pull it"),
    "InvalidImageName": (0, "its image has no valid name"),
    "ErrImagePull": (60, "its image cannot be pulled"),
    "ImagePullBackOff": (60, "its image cannot be pulled"),
    "CreateContainerConfigError": (20, "what it mounts is missing"),
    "CreateContainerError": (20, "its container cannot be made"),
    "RunContainerError": (5, "its container cannot be started"),
}
# What a warning says that does not go away by itself: (part of its text, sentence, seconds)
WARNINGS = (
    ("does not support user namespaces", "its node's runtime has no user namespaces", 3),
    ("no runtime for", "its node has no handler for this runtime class", 5),
    ("no such file or directory", "its image lacks what has to be there", 5),
)
# Parts of events about an image, which can come before the pod's status says the same.
PULLS = ("Failed to pull image", "ErrImagePull", "ImagePullBackOff", "Back-off pulling image")
NO_SANDBOX_S = 12  # a runtime that refused the pod so long refuses it for ever
KILLED = 128 + 9


@dataclass(frozen=True)
class Trouble:
    """Why a pod does not start. `patience_s`: how long it may last before it is given up; None: the caller's."""

    words: str
    patience_s: float | None = None


def trouble(pod, events: list) -> Trouble | None:
    """Return why a pod that is not up yet does not come up; None if nothing is known against it."""
    status = pod.status
    if status is None:
        return None
    if status.phase == "Failed":
        return Trouble(f"its pod failed: {_last_words(pod)}", 0)
    for container in _containers(status):
        waiting = container.state and container.state.waiting
        if waiting and waiting.reason in WAITING:
            patience, words = WAITING[waiting.reason]
            said = f" ({waiting.message})" if waiting.message else ""
            return Trouble(f"{words}: {container.image}{said}"[:600], patience)
        ended = container.state and container.state.terminated
        if ended and ended.exitCode:
            return Trouble(f"its pod ended at once: {_last_words(pod)}", 0)
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Trouble(f"no node has room for it: {condition.message}", None)
    for event in reversed(events):
        message = event.message or ""
        for part, words, patience in WARNINGS:
            if part in message:
                return Trouble(f"{words}: {message}"[:600], patience)
        if any(part in message for part in PULLS):
            patience, words = WAITING["ErrImagePull"]
            return Trouble(f"{words}: {pod.spec.containers[0].image} ({message})"[:600], patience)
    if events:
        said = f"{events[-1].reason}: {events[-1].message}"[:600]
        return Trouble(said, NO_SANDBOX_S if events[-1].reason == "FailedCreatePodSandBox" else None)
    return None


def is_over(pod) -> bool:
    """Return whether no program of the pod runs any more."""
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def is_going(pod) -> bool:
    """Return whether the cluster is about to end the pod: it was deleted, or is evicted."""
    marks = (condition for condition in pod.status.conditions or () if pod.status)
    return pod.metadata.deletionTimestamp is not None or any(
        mark.type == "DisruptionTarget" and mark.status == "True" for mark in marks
    )


def why_it_goes(pod) -> str:
    """Return why the cluster ends the pod, as the end of a sentence."""
    where = f"node {pod.spec.nodeName}"
    for mark in pod.status.conditions or ():
        if mark.type == "DisruptionTarget" and mark.status == "True":
            return f"{where} was to be emptied ({mark.reason}: {mark.message})"
    return f"its pod was deleted on {where}"


def out_of_memory(pod) -> bool:
    return any(
        ended is not None and ended.reason == "OOMKilled"
        for container in _containers(pod.status)
        for ended in (
            container.state and container.state.terminated,
            container.lastState and container.lastState.terminated,
        )
    )


def how_it_ended(pod) -> str:
    """Return how a pod that is over ended, as a sentence."""
    status = pod.status
    if status.reason == "Evicted":
        return f"Its pod was evicted from node {pod.spec.nodeName}: {status.message}"
    return f"Its pod ended on node {pod.spec.nodeName}: {_last_words(pod)}."


def _last_words(pod) -> str:
    status = pod.status
    if status.message or status.reason:
        return f"{status.reason or ''} {status.message or ''}".strip()
    for container in _containers(status):
        ended = container.state and container.state.terminated
        if ended and (ended.exitCode or ended.message):
            said = ended.message or ended.reason or ""
            killed = " (it was killed)" if ended.exitCode == KILLED else ""
            return f"{container.name} ended with {ended.exitCode}{killed} {said}".strip()[:600]
    return "it says nothing"


def _containers(status) -> list:
    return [*(status.initContainerStatuses or ()), *(status.containerStatuses or ())] if status else []

"""The namespaces of pods: one for each team, beside the configured one, which is their pattern.

A team's namespace is made when its first pod is, if the account may make it: with Pod Security *restricted*, the policy
of workspaces, and what the configured namespace has under the label `handrail.dev/for-teams` (rights, a quota, defaults
of containers). What is there already is left as it is. An account that may not make it has to be given it.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator

from ..base import BackendLost, DriverError
from .cluster import Cluster, Exists, Missing
from .template import POLICY, POLICY_NAME

OF, TEAM, COPIED = (f"handrail.dev/{name}" for name in ("of", "team", "for-teams"))
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
LONGEST_NAME, LONGEST_BASE, LONGEST_TEAM = 63, 40, 12  # the last of a slug that no namespace can have
KEPT_S = 300.0  # for which a namespace that was furnished is not looked at again
READY_S = 15.0  # in which a new namespace has its account, and this account its rights in it
LOOK_S = 0.1
SHORTENED = re.compile(r"-[0-9a-f]{8}\Z")  # how a slug that no namespace can have ends, and no other
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")  # of slugs, those that a label can have
NOT_MADE = (
    "The team {team} has no namespace {name} that this account may use: {why} Somebody who may has to run `kubectl "
    "create namespace {name}` and `kubectl label namespace {name} {labels}`, and to give the account of the runner "
    "there what it may in {base}. HANDRAIL_KUBERNETES_NAMESPACES=shared keeps all teams in {base}."
)
NOT_LABELLED = (
    "The namespace {name} is not labelled as that of the team {team}. If no others' pods are in it, run `kubectl label "
    "namespace {name} {labels}`."
)
NOT_FURNISHED = "The namespace {name} of the team {team} lacks {what}: {why}"
EACH = "Each team's pods are in a namespace of their own, {base}-TEAM."
SHARED = "The pods of all teams are in the namespace {base} (HANDRAIL_KUBERNETES_NAMESPACES)."
MAY_NOT = (
    "Each team's pods are to be in a namespace of their own, {base}-TEAM, which the account may not make; somebody who "
    "may has to make it for each team (docs/kubernetes.md)."
)


class Namespaces:
    """The namespaces of the teams beside `cluster.namespace`; with `shared`, that one is everybody's."""

    def __init__(self, cluster: Cluster, *, shared: bool):
        self.cluster, self.shared = cluster, shared
        self._kept: dict[str, float] = {}  # slug of a team: when its namespace was last found to be furnished

    def name_of(self, team: str) -> str:
        """Return the namespace of a team, by its slug; "" is that of what belongs to no team."""
        if not self._has_own(team):
            return self.cluster.namespace
        base, plain = self.cluster.namespace[:LONGEST_BASE], team.lower().replace("_", "-").strip("-")
        if plain == team and len(f"{base}-{team}") <= LONGEST_NAME and not SHORTENED.search(team):
            return f"{base}-{team}"
        digest = hashlib.sha256(team.encode()).hexdigest()[:8]
        return f"{base}-" + f"{plain[:LONGEST_TEAM].strip('-')}-{digest}".strip("-")

    def those_of(self, team: str) -> list[str]:
        """Return the namespaces where the team may have something: the configured one, and its own if it is there."""
        name = self.name_of(team)
        has_own = name != self.cluster.namespace and self._find(name) is not None
        return [self.cluster.namespace, *([name] if has_own else [])]

    def keep(self, team: str) -> str:
        """Make sure that the team's namespace is there with its walls; return its name, or raise DriverError."""
        name = self.name_of(team)
        if not self._has_own(team) or time.monotonic() - self._kept.get(team, -KEPT_S) < KEPT_S:
            return name
        self._make(name, team)
        for what, made in self._furniture(name, team):
            self._put(name, team, what, made)
        self._await_account(name, team)
        self._kept[team] = time.monotonic()
        return name

    def note(self) -> str:
        """Return where the pods of teams are, as a sentence for who looks after the cluster."""
        words = SHARED if self.shared else EACH if self._may_make() else MAY_NOT
        return words.format(base=self.cluster.namespace)

    def _has_own(self, team: str) -> bool:
        return bool(team) and not self.shared

    def _labels(self, team: str) -> dict[str, str]:
        """Return the labels of a team's namespace. No two slugs share them, though two may be shortened to one name."""
        slug = team if LABEL.fullmatch(team) else f"sha256.{hashlib.sha256(team.encode()).hexdigest()[:56]}"
        return {OF: self.cluster.namespace, TEAM: slug} | RESTRICTED

    def _make(self, name: str, team: str) -> None:
        labels = self._labels(team)
        about = {"name": name, "team": team, "base": self.cluster.namespace}
        about["labels"] = " ".join(f"{key}={value}" for key, value in labels.items())
        try:
            found = self._find(name) or self._create(name, labels)
        except BackendLost:
            raise
        except DriverError as error:
            raise DriverError(NOT_MADE.format(why=error, **about)) from error
        if not labels.items() <= (found.metadata.labels or {}).items():
            raise DriverError(NOT_LABELLED.format(**about))

    def _find(self, name: str):
        from lightkube.resources.core_v1 import Namespace

        try:
            with self.cluster.asked() as client:
                return client.get(Namespace, name)
        except Missing:
            return None

    def _create(self, name: str, labels: dict[str, str]):
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Namespace

        try:
            with self.cluster.asked() as client:
                return client.create(Namespace(metadata=ObjectMeta(name=name, labels=labels)))
        except Exists:
            return self._find(name)

    def _furniture(self, name: str, team: str) -> Iterator[tuple[str, Callable]]:
        """Yield (what it is, how it is made), rights first: the rest needs them."""
        from lightkube.resources.core_v1 import LimitRange, ResourceQuota
        from lightkube.resources.networking_v1 import NetworkPolicy
        from lightkube.resources.rbac_authorization_v1 import RoleBinding

        there = self.cluster.within(name)
        for kind in (RoleBinding, ResourceQuota, LimitRange):
            for pattern in self._patterns(kind, name, team):
                yield f"{kind.__name__} {pattern.metadata.name}", lambda like=pattern: _copy(like, there)
        policy = self.cluster.get(NetworkPolicy, POLICY_NAME)
        made = policy or NetworkPolicy.from_dict({"metadata": {"name": POLICY_NAME}, "spec": POLICY})
        yield f"NetworkPolicy {POLICY_NAME}", lambda: _copy(made, there)

    def _patterns(self, kind, name: str, team: str) -> list:
        """Return the objects of the configured namespace that each team's gets."""
        try:
            return self.cluster.listed(kind, labels={COPIED: "true"})
        except BackendLost:
            raise
        except DriverError as error:
            what = f"each {kind.__name__} of {self.cluster.namespace} with the label {COPIED}"
            raise DriverError(NOT_FURNISHED.format(name=name, team=team, what=what, why=error)) from error

    def _put(self, name: str, team: str, what: str, made: Callable) -> None:
        """Make a piece of furniture. Rights that were given a moment ago may still be unknown to the API server."""
        try:
            _until(made)
        except BackendLost:
            raise
        except DriverError as error:
            raise DriverError(NOT_FURNISHED.format(name=name, team=team, what=what, why=error)) from error

    def _await_account(self, name: str, team: str) -> None:
        """Wait for the account that the cluster makes in a new namespace: it takes no pod before."""
        from lightkube.resources.core_v1 import ServiceAccount

        there = self.cluster.within(name)

        def look() -> None:
            if there.get(ServiceAccount, "default") is None:
                raise DriverError("the cluster has not made it yet.")

        self._put(name, team, "ServiceAccount default", look)

    def _may_make(self) -> bool:
        """Return whether the account may make namespaces; True where the cluster does not say."""
        from lightkube.resources.authorization_v1 import SelfSubjectAccessReview

        asked = {"spec": {"resourceAttributes": {"verb": "create", "resource": "namespaces"}}}
        try:
            with self.cluster.asked() as client:
                return bool(client.create(SelfSubjectAccessReview.from_dict(asked)).status.allowed)
        except DriverError:
            return True


def _copy(pattern, there: Cluster) -> None:
    """Make an object like the pattern in another namespace, unless one of its name is there."""
    kind, found = type(pattern), pattern.to_dict()
    if there.get(kind, pattern.metadata.name) is not None:
        return
    about = {key: value for key, value in found.items() if key not in ("metadata", "status", "apiVersion", "kind")}
    metadata = {"name": pattern.metadata.name, "labels": {OF: there.namespace}}
    there.create(kind.from_dict({"metadata": metadata} | about))


def _until(done: Callable) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            done()
            return
        except BackendLost:
            raise
        except DriverError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)

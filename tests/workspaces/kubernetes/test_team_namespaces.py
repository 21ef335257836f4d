"""A namespace for each team: made with the walls of the configured one, or asked for in words; on a real cluster."""

import json
from dataclasses import replace

import pytest

from tests.support.kubernetes import kubeconfig_of
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS
from workspaces.drivers.base import DriverError
from workspaces.drivers.kubernetes.cluster import Cluster, Missing
from workspaces.drivers.kubernetes.namespaces import COPIED, OF, TEAM, Namespaces

RBAC = "rbac.authorization.k8s.io"
TEAMS = ("payments", "search")


@pytest.mark.parametrize(
    ("slug", "name"),
    [
        ("payments", "agents-payments"),
        ("", "agents"),
        ("Web_Shop", "agents-web-shop-ccc8726f"),
        ("web-shop", "agents-web-shop"),
        ("x" * 64, "agents-xxxxxxxxxxxx-7ce10097"),
        ("web-shop-ccc8726f", "agents-web-shop-ccc-9eefcbb6"),
    ],
)
def test_a_team_has_a_name_that_a_namespace_can_have(slug, name):
    found = Namespaces(Cluster("agents"), shared=False).name_of(slug)
    assert found == name


@pytest.fixture
def empty(monkeypatch):
    """A cluster without anything but accounts, in the place of a real one."""
    from lightkube.resources.core_v1 import ServiceAccount

    class Api:
        def __init__(self):
            self.kept = {}

        def get(self, kind, name, namespace=""):
            if kind is not ServiceAccount and (kind, namespace, name) not in self.kept:
                raise Missing(f"The cluster has no {name}.")
            return self.kept.get((kind, namespace, name), kind())

        def create(self, made, namespace=""):
            return self.kept.setdefault((type(made), namespace, made.metadata.name), made)

        def list(self, kind, **which):
            return []

    api = Api()
    monkeypatch.setattr("workspaces.drivers.kubernetes.cluster._client", lambda *_: api)


def test_two_teams_whose_names_are_shortened_to_one_do_not_share_it(empty):
    first, second = "Research_Department_48834", "Research_Department_68169"
    found = Namespaces(Cluster("agents"), shared=False)
    assert found.keep(first) == found.name_of(second) == "agents-research-dep-747268a7"
    for asked in (found, Namespaces(Cluster("agents"), shared=False)):
        with pytest.raises(DriverError, match=f"is not labelled as that of the team {second}"):
            asked.keep(second)
        assert asked.keep(first) == "agents-research-dep-747268a7"


def test_a_team_does_not_get_the_configured_namespace_by_its_name(empty):
    from lightkube.resources.core_v1 import Namespace

    base = "a" * 40
    found = Namespaces(Cluster(f"{base}-payments"), shared=False)
    with found.cluster.asked() as client:
        client.create(Namespace.from_dict({"metadata": {"name": f"{base}-payments"}}))
    with pytest.raises(DriverError, match="is not labelled as that of the team payments"):
        found.keep("payments")


def names(base: str) -> list[str]:
    return [f"{base}-{team}" for team in TEAMS]


@pytest.fixture
def base(kubernetes, pod_namespace):
    """The configured namespace. Those of TEAMS are not there before the test, and gone after it."""

    def clear() -> None:
        for name in names(pod_namespace):
            kubernetes.api.ask(f"/api/v1/namespaces/{name}", method="DELETE")
        until(lambda: all(kubernetes.api.ask(f"/api/v1/namespaces/{name}")[0] == 404 for name in names(pod_namespace)))

    clear()
    yield pod_namespace
    clear()


@pytest.fixture
def quota(base):
    """A quota of the configured namespace, which each team's gets as well."""
    from lightkube.resources.core_v1 import ResourceQuota

    cluster = Cluster(base)
    about = {"name": "each", "labels": {COPIED: "true"}}
    cluster.create(ResourceQuota.from_dict({"metadata": about, "spec": {"hard": {"pods": "40"}}}))
    yield ResourceQuota
    cluster.delete(ResourceQuota, "each")


RIGHTS = [{"apiGroups": ["", "networking.k8s.io", RBAC], "resources": ["*"], "verbs": ["*"]}]


def give_rights(kubernetes, account_in: str, namespace: str) -> None:
    """Let the account `narrow` do what a runner does, in this namespace alone."""
    path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    kubernetes.create(f"{path}/roles", "Role", "narrow", rules=RIGHTS)
    role = {"apiGroup": RBAC, "kind": "Role", "name": "narrow"}
    whom = [{"kind": "ServiceAccount", "name": "narrow", "namespace": account_in}]
    kubernetes.create(f"{path}/rolebindings", "RoleBinding", "narrow", roleRef=role, subjects=whom)


@pytest.fixture
def narrow(kubernetes, base, tmp_path, monkeypatch):
    """`narrow()`: from now on the cluster is asked by an account with a runner's rights in the configured namespace."""
    kubernetes.create(f"/api/v1/namespaces/{base}/serviceaccounts", "ServiceAccount", "narrow")
    give_rights(kubernetes, base, base)
    yield lambda: monkeypatch.setenv("KUBECONFIG", str(kubeconfig_of(kubernetes, base, "narrow", tmp_path)))
    monkeypatch.undo()
    for group, kind in ((f"apis/{RBAC}", "rolebindings"), (f"apis/{RBAC}", "roles"), ("api", "serviceaccounts")):
        kubernetes.api.ask(f"/{group}/v1/namespaces/{base}/{kind}/narrow", method="DELETE")


def test_a_teams_pod_is_in_its_namespace_with_the_walls_of_the_configured_one(base, quota, pod):
    from lightkube.resources.core_v1 import Namespace, Pod, Secret
    from lightkube.resources.networking_v1 import NetworkPolicy

    run = pod(team="payments")
    there = Cluster(f"{base}-payments")
    [made] = there.listed(Pod)
    assert made.metadata.uid == run.driver._known(run.spec.run_id)["uid"]
    assert run.driver.pods.find(run.spec.run_id) is None
    with there.asked() as client:
        labels = client.get(Namespace, there.namespace).metadata.labels
    assert (labels[OF], labels[TEAM], labels["pod-security.kubernetes.io/enforce"]) == (base, "payments", "restricted")
    assert there.get(quota, "each").spec.hard == {"pods": "40"}
    assert there.get(NetworkPolicy, "handrail-workspaces").spec.egress in (None, [])
    assert run.sh("echo one > note; cat note") == ("one\n", 0)
    run.do.stop(run.owner)
    run.do.clear(run.owner)
    assert (run.spec.workspace / "note").read_text() == "one\n"
    until(lambda: not there.listed(Pod) and not there.listed(Secret))


def test_the_quota_of_a_team_is_its_own(base, quota, pod):
    run = pod(team="payments")
    there = Cluster(f"{base}-payments")
    with there.asked() as client:
        client.patch(quota, "each", {"spec": {"hard": {"pods": "1"}}}, namespace=there.namespace)
    until(lambda: (there.get(quota, "each").status.used or {}).get("pods") == "1")
    second = replace(run.spec, run_id=f"{run.spec.run_id}-b", workspace_id="2")
    with pytest.raises(DriverError, match=r"^The quota of the namespace is used up: .*each"):
        run.do.start(second)
    other = pod(team="search")
    assert other.sh("echo here") == ("here\n", 0)
    assert there.get(quota, "each").spec.hard == {"pods": "1"}  # what an operator has changed stays


def test_a_pod_of_before_goes_on_in_the_configured_namespace(pod):
    run = pod()
    place = run.driver._folder(run.spec.run_id) / "pod.json"
    known = json.loads(place.read_text())
    assert known.pop("namespace") == run.driver.cluster.namespace
    place.write_text(json.dumps(known))
    assert run.again().alive(run.owner) is True
    assert run.sh("echo kept > note") == ("", 0)
    run.again().stop(run.owner)
    assert (run.spec.workspace / "note").read_text() == "kept\n"
    until(lambda: run.driver.pods.find(run.spec.run_id) is None)


def test_with_shared_all_teams_are_in_the_configured_namespace(pod, base, monkeypatch):
    monkeypatch.setitem(OPTIONS["kubernetes"], "namespaces", "shared")
    run = pod(team="payments")
    assert run.driver.pods.find(run.spec.run_id).metadata.namespace == base
    note = run.driver.namespaces.note()
    assert note == f"The pods of all teams are in the namespace {base} (HANDRAIL_KUBERNETES_NAMESPACES)."


def test_what_the_account_may_not_make_is_asked_for_in_words_and_then_used(kubernetes, pod, base, narrow):
    run = pod()
    narrow()
    driver = run.again().driver
    assert "which the account may not make" in driver.namespaces.note()
    wanted = replace(run.spec, run_id=f"{run.spec.run_id}-b", workspace_id="2", team="payments")
    with pytest.raises(DriverError) as refused:
        run.again().start(wanted)
    words = str(refused.value)
    assert words.startswith(f"The team payments has no namespace {base}-payments that this account may use: ")
    assert f"`kubectl create namespace {base}-payments`" in words
    assert [owner.run_id for owner in run.do.records()] == [run.spec.run_id]

    kubernetes.create("/api/v1/namespaces", "Namespace", f"{base}-payments")
    give_rights(kubernetes, base, f"{base}-payments")
    until(lambda: "is not labelled as that of the team payments" in refusal(driver, "payments"))  # rights take a moment
    label(kubernetes, f"{base}-payments", words.partition("label namespace ")[2].partition("`")[0].split()[1:])
    owner = run.again().start(wanted)
    assert driver._pods_of(wanted.run_id).find(wanted.run_id).metadata.namespace == f"{base}-payments"
    run.again().stop(owner)
    run.again().clear(owner)


def refusal(driver, team: str) -> str:
    """The words with which a team gets no namespace; "" if it gets one."""
    try:
        driver.namespaces.keep(team)
    except DriverError as error:
        return str(error)
    return ""


def label(kubernetes, namespace: str, labels: list[str]) -> None:
    """Label it with words as `kubectl label` takes them."""
    path = f"/api/v1/namespaces/{namespace}"
    found = kubernetes.api.ask(path)[1]
    found["metadata"]["labels"] |= dict(each.split("=") for each in labels)
    assert kubernetes.api.ask(path, found, method="PUT")[0] == 200


def test_a_sandbox_of_a_team_is_in_its_namespace(agent_sandbox, base, pod, monkeypatch):
    monkeypatch.setitem(OPTIONS["kubernetes"], "source", "agent-sandbox")
    run = pod(team="payments")
    [made] = run.driver._pods_of(run.spec.run_id).listed()
    assert made.metadata.namespace == f"{base}-payments"
    assert run.sh("echo one") == ("one\n", 0)
    run.do.stop(run.owner)
    until(lambda: not run.driver._pods_of(run.spec.run_id).listed())


def test_the_workspaces_of_a_team_are_in_its_namespace(on_cluster):
    from lightkube.resources.core_v1 import Pod

    there = Cluster(OPTIONS["kubernetes"]["at"] + "-main")
    before = {each.metadata.uid for each in there.listed(Pod)}
    made = on_cluster.create(driver="kubernetes")
    assert made["state"] == "ready", made
    [found] = [each for each in there.listed(Pod) if each.metadata.uid not in before]
    assert found.metadata.labels["handrail.dev/workspace"]
    on_cluster.post(f"/workspaces/{made['key']}/stop", expect=202)
    assert on_cluster.settled(made["key"])["state"] == "stopped"

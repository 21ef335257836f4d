"""The chart of deploy/kubernetes: linted and rendered by Helm itself, and each object valid for Kubernetes."""

import subprocess

import kubernetes_validate
import pytest
import yaml
from helm_python import Chart, HelmError, chart

from tests.support import CHECKOUT

PLACE = CHECKOUT / "deploy/kubernetes/chart"
IMAGE = f"registry.example.org/handrail@sha256:{'0' * 64}"
NEEDED = {"image": IMAGE, "publicUrl": "https://handrail.example.org"}
ALL = NEEDED | {
    "bucket": "s3://handrail/snapshots",
    "env": {"AWS_REGION": "us-east-1"},
    "imagePullSecrets": ["registry"],
    "ingress": {"enabled": True, "tlsSecret": "certificate", "className": "nginx"},
    "workspaces": {"source": "agent-sandbox", "warm": 2},
}
VERSIONS = ("1.30", "1.34")


def rendered(values, name="desk") -> dict[tuple[str, str], dict]:
    """Every object by its kind and name."""
    texts = Chart.load(PLACE).render(values, name=name, namespace="handrail")
    found = {}
    for path, text in texts.items():
        for each in () if path.endswith("NOTES.txt") else yaml.safe_load_all(text):
            assert (each["kind"], each["metadata"]["name"]) not in found
            found[each["kind"], each["metadata"]["name"]] = each
    return found


def pods(objects) -> dict[str, dict]:
    """The spec of each pod that the chart starts, by the name of what starts it."""
    return {
        name: each["spec"]["template"]["spec"]
        for (kind, name), each in objects.items()
        if kind in ("StatefulSet", "Deployment", "Job")
    }


@pytest.mark.parametrize("values", [NEEDED, ALL], ids=["needed", "all"])
def test_helm_has_nothing_to_say_against_it(values):
    report = chart.lint(PLACE, values, strict=True, kube_version="v1.34.0")
    assert (report["errors"], [each for each in report["messages"] if each["severity"] > 1]) == ([], [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [NEEDED, ALL], ids=["needed", "all"])
def test_each_object_is_valid(values, version):
    for each in rendered(values).values():
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"image": "registry.example.org/handrail:latest"}, "image"),
        ({"image": ""}, "image"),
        ({"publicUrl": "https://handrail.example.org/desk"}, "publicUrl"),
        ({"workspaces": {"source": "vms"}}, "source"),
        ({"workspaces": {"source": "pods", "warm": 2}}, "warm"),
        ({"workspaces": {"source": "agent-sandbox", "warm": 200}}, "warm"),
        ({"workspaces": {"namespaces": "pods"}}, "namespaces"),
        ({"web": {"replicas": 0}}, "replicas"),
        ({"bucket": "handrail"}, "bucket"),
    ],
)
def test_values_that_cannot_work_are_refused_with_their_name(wrong, named):
    with pytest.raises(HelmError, match=named):
        Chart.load(PLACE).validate_schema(NEEDED | wrong)


def test_its_parts():
    assert set(pods(rendered(NEEDED))) == {f"desk-handrail-{part}" for part in ("web", "runner", "queue", "prepare-1")}


def test_no_pod_may_more_than_pod_security_restricted_allows():
    for name, pod in pods(rendered(ALL)).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
            "emptyDir",
            "secret",
            "configMap",
        }
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["image"] == IMAGE


def test_workspaces_are_in_a_namespace_of_their_own_that_enforces_restricted():
    namespace = rendered(NEEDED)["Namespace", "handrail-workspaces"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_secret_is_in_what_is_rendered():
    objects = rendered(ALL)
    assert not [name for kind, name in objects if kind == "Secret"]
    mounted = {
        volume["secret"]["secretName"]
        for pod in pods(objects).values()
        for volume in pod["volumes"]
        if "secret" in volume
    }
    assert mounted == {"handrail-keys"}


def test_only_who_runs_workspaces_has_an_account_that_may_do_something():
    objects = rendered(NEEDED)
    tokens = {pod["serviceAccountName"]: pod.get("automountServiceAccountToken") for pod in pods(objects).values()}
    bound = {
        name: {subject["name"] for subject in each.get("subjects", ())}
        for (kind, name), each in objects.items()
        if kind.endswith("Binding")
    }
    runners = {"desk-handrail-web", "desk-handrail-runner"}
    assert bound == {
        "desk-handrail-prepare": {"desk-handrail-prepare"},
        "desk-handrail-pods": runners,
        "handrail-desk-handrail-probe": runners,
        "handrail-workspaces-teams": set(),  # of a policy of admission, not of rights
    }
    # The accounts themselves mount no token, so a pod whose account may do something has to ask for it.
    assert tokens == {account: account in set().union(*bound.values()) for account in tokens}


def verbs_of(objects, name: str) -> set[str]:
    return {verb for rule in objects["ClusterRole", name]["rules"] for verb in rule["verbs"]}


def test_an_account_may_nothing_outside_the_namespaces_of_workspaces_but_read_and_make_those_of_teams():
    objects, shared = (
        rendered(ALL | {"workspaces": ALL["workspaces"] | {"namespaces": each}}) for each in ("team", "shared")
    )
    for found in (objects, shared):
        bound = found["RoleBinding", "desk-handrail-pods"]
        assert bound["metadata"]["namespace"] == "handrail-workspaces"
        assert bound["roleRef"]["name"] == "handrail-desk-handrail-workspaces"
    assert verbs_of(shared, "handrail-desk-handrail-probe") == {"get", "list"}
    assert verbs_of(objects, "handrail-desk-handrail-probe") == {"get", "list", "create", "bind"}
    held = objects["ValidatingAdmissionPolicy", "handrail-workspaces-teams"]["spec"]
    assert held["matchConditions"][0]["expression"] == (
        "request.userInfo.username in ['system:serviceaccount:handrail:desk-handrail-web',"
        " 'system:serviceaccount:handrail:desk-handrail-runner']"
    )
    assert "startsWith('handrail-workspaces-')" in held["validations"][0]["expression"]
    assert not [kind for kind, _ in shared if kind.startswith("ValidatingAdmission")]


def test_a_runner_may_not_enter_a_pod():
    rules = rendered(ALL)["ClusterRole", "handrail-desk-handrail-workspaces"]["rules"]
    resources = [each for rule in rules for each in rule["resources"]]
    assert "pods/exec" not in resources
    assert "sandboxclaims" in resources
    of_sandboxes = [rule for rule in rules if any("agents.x-k8s.io" in group for group in rule["apiGroups"])]
    assert {verb for rule in of_sandboxes for verb in rule["verbs"]} == {"get", "list", "create", "delete", "patch"}
    assert [rule["resources"] for rule in of_sandboxes if "list" in rule["verbs"]] == [["sandboxwarmpools"]]
    plain = rendered(NEEDED)["ClusterRole", "handrail-desk-handrail-workspaces"]["rules"]
    assert not [rule for rule in plain if "agents.x-k8s.io" in rule["apiGroups"]]


def test_a_workspace_reaches_nothing_and_is_reached_by_runners_alone():
    policy = rendered(NEEDED)["NetworkPolicy", "handrail-workspaces"]
    assert policy["metadata"]["namespace"] == "handrail-workspaces"
    assert (policy["spec"]["podSelector"], policy["spec"]["egress"]) == ({}, [])
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "handrail"}
    assert rule["ports"] == [{"protocol": "TCP", "port": 7443}]


def test_the_selector_of_each_service_finds_the_pods_of_its_part():
    objects = rendered(NEEDED)
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for (kind, name), each in objects.items()
        if kind == "StatefulSet"
    }
    for (kind, name), each in objects.items():
        if kind == "Service":
            found = [of for of, has in labels.items() if each["spec"]["selector"].items() <= has.items()]
            assert found == ["desk-handrail-runner" if name.endswith("runner") else "desk-handrail-web"]


def test_what_a_runner_keeps_is_on_a_claim_unless_it_is_not_wanted():
    kept, not_kept = (
        rendered(values)["StatefulSet", "desk-handrail-runner"]["spec"]
        for values in (NEEDED, NEEDED | {"runner": {"storage": ""}})
    )
    assert kept["volumeClaimTemplates"][0]["metadata"]["name"] == "home"
    assert "home" not in [volume["name"] for volume in kept["template"]["spec"]["volumes"]]
    assert "volumeClaimTemplates" not in not_kept
    assert {"name": "home", "emptyDir": {}} in not_kept["template"]["spec"]["volumes"]


@pytest.fixture
def keys_script(tmp_path):
    """The chart's script, with its folders below the test's."""
    text = rendered(NEEDED)["ConfigMap", "desk-handrail-scripts"]["data"]["keys.sh"]
    script = tmp_path / "keys.sh"
    script.write_text(
        text.replace("/data/", f"{tmp_path}/data/")
        .replace("/keys/", f"{tmp_path}/keys/", 1)
        .replace(" /keys/", f" {tmp_path}/keys/")
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "keys").mkdir()
    for name in ("secret_key", "ring"):
        (tmp_path / "keys" / name).write_text(f"the {name}\n")

    def run(host: str) -> str:
        subprocess.run(["/bin/sh", "-eu", script], env={"HOST": host, "PATH": "/usr/bin:/bin"}, check=True)
        return (tmp_path / "data/home/installation").read_text()

    run.home = tmp_path / "data/home"
    return run


def test_a_pod_whose_folder_was_lost_is_the_same_host_again(keys_script):
    first = keys_script("web-0")
    assert {path.name: path.read_text() for path in (keys_script.home / "keys").iterdir()} == {
        "secret_key": "the secret_key\n",
        "ring": "the ring\n",
    }
    assert oct((keys_script.home / "keys/ring").stat().st_mode)[-3:] == "600"
    assert keys_script("web-1") == first  # as long as its folder is there
    (keys_script.home / "installation").unlink()
    assert keys_script("web-1") != first
    (keys_script.home / "installation").unlink()
    assert keys_script("web-0") == first

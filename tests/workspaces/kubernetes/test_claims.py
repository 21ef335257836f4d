"""Volumes that outlive pods (`storage: pvc`): they go with the workspace that they were made for."""

import json
import uuid

import pytest

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.test_forgetting import EMPTY_THE_TRASH
from workspaces.drivers.kubernetes import claims

CLAIMS = "/api/v1/persistentvolumeclaims"


@pytest.fixture
def volume(kubernetes, tmp_path):
    """A volume for the next claim: a folder of the nodes."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    for parent in (tmp_path, tmp_path.parent):
        parent.chmod(0o755)
    name = f"volume-{uuid.uuid4().hex[:8]}"
    how = {"capacity": {"storage": "64Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)}}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": how}
    status, said = kubernetes.api.ask("/api/v1/persistentvolumes", body)
    assert status == 201, said
    yield folder
    kubernetes.api.ask(f"/api/v1/persistentvolumes/{name}", method="DELETE")


def claims_of(kubernetes, workspace_id: str) -> list[str]:
    found = kubernetes.api.ask(f"{CLAIMS}?labelSelector=handrail.dev/workspace%3D{workspace_id}")[1]["items"]
    return [each["metadata"]["name"] for each in found]


def test_a_claim_is_deleted_with_its_workspace_and_not_before(on_cluster, lead, kubernetes, volume):
    desk, product = on_cluster, on_cluster.product
    name = f"volumes-{uuid.uuid4().hex[:8]}"
    lead.post("/environments", {"name": name, "driver": "kubernetes", "storage": "pvc"})
    made = desk.create(environment=name)
    assert made["state"] == "ready", made
    key = made["key"]
    row = product.shell(f"from workspaces.models import Workspace as W; print(W.objects.get(key={key!r}).pk)").strip()
    desk.run(key, "echo on the volume > note")
    assert (volume / "tree" / "note").read_text() == "on the volume\n"
    [claim] = claims_of(kubernetes, row)
    [pod] = [each["spec"] for each in kubernetes.api.ask("/api/v1/pods")[1]["items"] if claim in json.dumps(each)]
    # A new volume belongs to root; not this one, which is a folder of the nodes.
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    desk.post(f"/workspaces/{key}/stop", expect=202)
    assert desk.settled(key)["state"] == "stopped"
    assert claims_of(kubernetes, row) == [claim]
    Desk(product, lead.token).call("DELETE", f"/workspaces/{key}", expect=202)
    until(lambda: desk.get(f"/workspaces/{key}", expect=None).status == 404)
    assert claims_of(kubernetes, row) == [claim]  # it may come back from the trash
    product.shell(EMPTY_THE_TRASH.format(key=key))
    until(lambda: not claims_of(kubernetes, row))


def test_hosts_have_claims_of_their_own_also_where_their_folders_have_one_path(tmp_path):
    """As the chart has it: each runner's HANDRAIL_HOME is /data/home, on a volume of its own."""
    hosts = []
    for number in range(2):
        (tmp_path / "installation").write_text(f"id {number}\n")
        hosts.append(claims.host_of(tmp_path))
    assert hosts[0] != hosts[1]
    assert claims.host_of(tmp_path) == hosts[1]


def test_a_host_that_a_workspace_has_left_deletes_its_own_claim_alone(pod):
    run = pod()
    driver = run.driver
    mine = claims.keep(driver.cluster, claims.host_of(driver.home), run.spec)
    others = claims.keep(driver.cluster, "0" * 16, run.spec)

    def left() -> set[str]:
        from lightkube.resources.core_v1 import PersistentVolumeClaim

        return {each.metadata.name for each in driver.cluster.listed(PersistentVolumeClaim)} & {mine, others}

    assert left() == {mine, others}
    run.do.remove_volumes(run.spec.workspace_id, "", everywhere=False)
    until(lambda: left() == {others})
    run.do.remove_volumes(run.spec.workspace_id, "", everywhere=True)
    until(lambda: not left())

"""An image by its tag is resolved and pulled because a lead asked for it: by the page and the API, with its outcome."""

import json

import pytest

from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces.drivers.registries import registry_of
from workspaces.models import Environment, Operation, Phase
from workspaces.provisioning import images
from workspaces.services import environments
from workspaces.services.environments import pulled

LEAD = Actor.system("test")
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def shop(team):
    fields = {"driver": "docker", "image": "mcr.example.org/devcontainers/python:3.12"}
    return environments.save(team, "shop", fields, base=None, by=LEAD)


def settle(operation, **outcome):
    """End the operation as the runner does."""
    pulled.finish(operation, outcome, by=LEAD)
    Operation.objects.filter(pk=operation.pk).update(phase=Phase.SETTLED, outcome=outcome)


def test_a_lead_asks_and_the_next_version_names_the_digest(browser_of, read, lena, shop):
    lead, address = browser_of(lena), f"/environments/{shop.pk}/"
    assert "Pull it by its digest" in read(lead, address)
    lead.post(f"{address}image/pull/")
    lead.post(f"{address}image/pull/")  # a second tap asks for nothing more
    [operation] = Operation.objects.filter(kind="pull_image")
    assert operation.args == {"environment": str(shop.pk), "image": shop.image}
    page = read(lead, address)
    assert "It is being pulled." in page
    assert "Pull it by its digest" not in page
    settle(operation, ok=True, image=f"{shop.image}@{DIGEST}")
    newest = Environment.objects.get(name="shop", version=2)
    assert newest.image == f"{shop.image}@{DIGEST}"
    assert "Pull it by its digest" not in read(lead, f"/environments/{newest.pk}/")
    verbs = list(Event.objects.filter(verb__startswith="environment.image").values_list("verb", flat=True))
    assert sorted(verbs) == ["environment.image_asked", "environment.image_pulled"]


@pytest.mark.parametrize("phase", [Phase.SETTLED, Phase.UNCERTAIN])
def test_why_it_was_not_pulled_stands_on_the_page(browser_of, read, lena, shop, phase):
    lead, address = browser_of(lena), f"/environments/{shop.pk}/"
    lead.post(f"{address}image/pull/")
    settle(Operation.objects.get(kind="pull_image"), ok=False, reason="Can't resolve mcr.example.org.")
    Operation.objects.update(phase=phase)
    page = read(lead, address)
    assert "resolve mcr.example.org." in page
    assert "Pull it by its digest" in page
    assert Environment.objects.filter(name="shop").count() == 1


def test_a_version_that_was_saved_meanwhile_stays(shop):
    operation = pulled.ask(shop, by=LEAD)
    environments.save(shop.team, "shop", {"image": "debian:12"}, base=shop, by=LEAD)
    settle(operation, ok=True, image=f"{shop.image}@{DIGEST}")
    assert Environment.objects.filter(name="shop").order_by("-version")[0].image == "debian:12"


def test_only_leads_ask_and_only_for_tags(browser_of, bob, lena, shop, client, team, token_of):
    assert browser_of(bob).post(f"/environments/{shop.pk}/image/pull/").status_code == 403
    headers = {"Authorization": f"Bearer {token_of(lena)}"}
    made = environments.save(team, "pinned", {"driver": "docker", "image": f"debian@{DIGEST}"}, base=None, by=LEAD)
    for name, status in (("pinned", 409), ("nowhere", 404)):
        address = f"/api/v1/environments/{name}/image/pull"
        answer = client.post(address, json.dumps({}), content_type="application/json", headers=headers)
        assert answer.status_code == status, answer.content
    with pytest.raises(Problem):
        pulled.ask(made, by=LEAD)
    assert not Operation.objects.filter(kind="pull_image").exists()


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("python:3.12", "docker.io"),
        ("team/app", "docker.io"),
        ("docker.io/team/app:1", "docker.io"),
        ("index.docker.io/team/app:1", "docker.io"),
        ("ghcr.io/team/app:1", "ghcr.io"),
        ("localhost/app", "localhost"),
        ("Inner/app:1", "inner"),
        ("inner.test:5000/app:1", "inner.test:5000"),
    ],
)
def test_the_registry_of_an_image_is_the_one_that_engines_ask(image, host):
    assert registry_of(image) == host


def test_a_private_registry_is_asked_only_if_the_operator_named_it(settings, tmp_path):
    (tmp_path / "hosts").write_text("10.1.2.3 inner.test\n")
    settings.HANDRAIL_EGRESS_HOSTS = str(tmp_path / "hosts")
    with pytest.raises(Problem, match="private address"):
        images.check_registry("inner.test:5000/app:1")
    with pytest.raises(Problem, match="private address"):
        images.check_registry("127.0.0.1:5000/app:1")
    settings.HANDRAIL_PULL_FROM = ["inner.test:5000"]
    images.check_registry("inner.test:5000/app:1")

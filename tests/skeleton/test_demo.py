"""The demonstration is real: it goes through against a running product, and what it leaves can be looked at."""


def test_the_demonstration_goes_through_unattended(product):
    done = product.manage("demo", "--unattended")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [line.split(":")[0].strip() for line in done.stdout.splitlines() if "allowed" in line.split(":")[0]]
    assert verdicts == ["allowed"] * 6 + ["not allowed"] * 2
    token = product.person_token("demo-looker", "viewer")
    key = next(
        w["key"]
        for w in product.get("/api/v1/workspaces", token).json["workspaces"]
        if w["key"].startswith("handrail-demo-")
    )
    changes = product.get(f"/api/v1/workspaces/{key}/diff?from=1&to=live", token).json["changes"]
    assert "demo_test.py" in [change["path"] for change in changes if change["kind"] == "added"]
    assert any(change["path"].startswith("templates") and change["kind"] == "removed" for change in changes)
